// Parameters that no result of a model needs, so that TorchScript's exporter leaves them out.
#include <span>
#include <string_view>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr std::string_view kFlavaFile = "models/flava/modeling_flava.py";
constexpr SeenIn kFusion = {kTransformers, "models/dpt/modeling_dpt.py",
                            "hidden_state = hidden_state + self.residual_layer1(residual)"};
constexpr SeenIn kDptNorm = {kTransformers, "models/dpt/modeling_dpt.py",
                             "self.dpt = DPTModel(config, add_pooling_layer=False)"};
constexpr SeenIn kBrosPooler = {kTransformers, "models/bros/modeling_bros.py",
                                "self.pooler = BrosPooler(config) if add_pooling_layer"};
constexpr SeenIn kAlignPooler = {kTransformers, "models/align/modeling_align.py",
                                 "self.pooler = AlignTextPooler(config) if add_pooling_layer"};
constexpr SeenIn kEncoder = {kTransformers, "models/encoder_decoder/modeling_encoder_decoder.py",
                             "encoder = AutoModel.from_config(config.encoder)"};
constexpr SeenIn kFlavaNorm = {kTransformers, kFlavaFile, "self.layernorm = nn.LayerNorm("};
constexpr SeenIn kFlavaPooler = {kTransformers, kFlavaFile, "self.pooler = FlavaPooler(config)"};
constexpr SeenIn kFlavaProjection = {kTransformers, kFlavaFile,
                                     "self.image_projection = nn.Linear("};
constexpr SeenIn kOwlProjection = {
    kTransformers, "models/owlvit/modeling_owlvit.py",
    "self.visual_projection = nn.Linear(self.vision_embed_dim, self.projection_dim"};
constexpr SeenIn kOwlScale = {kTransformers, "models/owlvit/modeling_owlvit.py",
                              "self.logit_scale = nn.Parameter("};
constexpr SeenIn kObjectness = {kTransformers, "models/owlv2/modeling_owlv2.py",
                                "self.objectness_head = Owlv2BoxPredictionHead("};
constexpr std::string_view kSamFile = "models/sam/modeling_sam.py";
constexpr SeenIn kSamScores = {kTransformers, kSamFile,
                               "self.iou_prediction_head = SamFeedForward("};
constexpr SeenIn kSamScoresWidth = {kTransformers, "models/sam/configuration_sam.py",
                                    "iou_head_hidden_dim: int = 256"};
constexpr SeenIn kSamMasks = {kTransformers, kSamFile, "self.mask_embed = SamMaskEmbedding("};
constexpr SeenIn kSamChannels = {kTransformers, "models/sam/configuration_sam.py",
                                 "mask_input_channels: int = 16"};
constexpr SeenIn kSamPoints = {kTransformers, kSamFile, "self.point_embed = nn.ModuleList("};
constexpr std::string_view kSamHead = "mask_decoder.iou_token.weight";
constexpr std::string_view kSamHidden = "mask_decoder.output_hypernetworks_mlps.0.proj_in.weight";
constexpr std::string_view kSamPrompts = "prompt_encoder.no_mask_embed.weight";
constexpr SeenIn kBigBird = {kTransformers, "models/big_bird/modeling_big_bird.py",
                             "self.pooler = nn.Linear(config.hidden_size, config.hidden_size)"};
// Where BERT's are "attention.self.query".
constexpr std::string_view kBigBirdQuery = "encoder.layer.0.attention.query/MatMul";
constexpr SeenIn kSiglipHead = {kTransformers, "models/siglip/modeling_siglip.py",
                                "self.head = nn.Linear(embed_dim, config.projection_size)"};
// Where CLIP's have another activation.
constexpr std::string_view kSiglipActivation = "encoder.layers.0.mlp.activation_fn/Tanh";
constexpr SeenIn kStrided = {kTransformers, "models/pp_lcnet_v3/modeling_pp_lcnet_v3.py",
                             "if self.stride != 2:"};
constexpr SeenIn kBlipText = {kTransformers, "models/blip/modeling_blip_text.py",
                              "self.crossattention = BlipTextAttention("};

constexpr SeenIn kCrossLayer = {kTransformers, "models/lxmert/modeling_lxmert.py",
                                "self.visn_self_att = LxmertSelfAttentionLayer(config)"};

constexpr UnreadChild kUnreadChildren[] = {
    // CLIPVisionTransformer's last norm makes the pooled output, which a classifier of patches does
    // not read (CLIPForImageClassification).
    {"pre_layrnorm",
     "post_layernorm",
     {kTransformers, "models/clip/modeling_clip.py", "self.pre_layrnorm = nn.LayerNorm("}},
    // BlipTextLayer's attention of images, where a text is encoded alone.
    {"text_model.encoder.layer.*.attention.self.query",
     "text_model.encoder.layer.*.crossattention.self.query", kBlipText,
     "vision_model.encoder.layers.0.self_attn.qkv.weight"},
    {"text_model.encoder.layer.*.attention.self.key",
     "text_model.encoder.layer.*.crossattention.self.key", kBlipText,
     "vision_model.encoder.layers.0.self_attn.qkv.weight"},
    {"text_model.encoder.layer.*.attention.self.value",
     "text_model.encoder.layer.*.crossattention.self.value", kBlipText,
     "vision_model.encoder.layers.0.self_attn.qkv.weight"},
    {"text_model.encoder.layer.*.attention.output.dense",
     "text_model.encoder.layer.*.crossattention.output.dense", kBlipText,
     "vision_model.encoder.layers.0.self_attn.qkv.weight"},
    {"text_model.encoder.layer.*.attention.output.LayerNorm",
     "text_model.encoder.layer.*.crossattention.output.LayerNorm", kBlipText,
     "vision_model.encoder.layers.0.self_attn.qkv.weight"},
    // LxmertXLayer's side of images, of which the last one's states nothing reads.
    {"x_layers.*.lang_self_att.self.query", "x_layers.*.visn_self_att.self.query", kCrossLayer},
    {"x_layers.*.lang_self_att.self.key", "x_layers.*.visn_self_att.self.key", kCrossLayer},
    {"x_layers.*.lang_self_att.self.value", "x_layers.*.visn_self_att.self.value", kCrossLayer},
    {"x_layers.*.lang_self_att.output.dense", "x_layers.*.visn_self_att.output.dense", kCrossLayer},
    {"x_layers.*.lang_self_att.output.LayerNorm", "x_layers.*.visn_self_att.output.LayerNorm",
     kCrossLayer},
    {"x_layers.*.lang_inter.dense", "x_layers.*.visn_inter.dense", kCrossLayer},
    {"x_layers.*.lang_output.dense", "x_layers.*.visn_output.dense", kCrossLayer},
    {"x_layers.*.lang_output.LayerNorm", "x_layers.*.visn_output.LayerNorm", kCrossLayer},
};

constexpr UnreadParameter kUnreadParameters[] = {
    // Dinov2Embeddings', read where patches are masked.
    {"encoder.layer.0.layer_scale1.lambda1",
     "embeddings.mask_token",
     "embeddings.cls_token",
     {kTransformers, "models/dinov2/modeling_dinov2.py", "self.mask_token = nn.Parameter("}},
    // DPTFeatureFusionLayer's first, which has no residual, and those of its kin.
    {"fusion_stage.layers.0.residual_layer2.convolution1.weight",
     "fusion_stage.layers.0.residual_layer1.convolution1.weight",
     "fusion_stage.layers.0.residual_layer2.convolution1.weight", kFusion},
    {"fusion_stage.layers.0.residual_layer2.convolution1.bias",
     "fusion_stage.layers.0.residual_layer1.convolution1.bias",
     "fusion_stage.layers.0.residual_layer2.convolution1.bias", kFusion},
    {"fusion_stage.layers.0.residual_layer2.convolution2.weight",
     "fusion_stage.layers.0.residual_layer1.convolution2.weight",
     "fusion_stage.layers.0.residual_layer2.convolution2.weight", kFusion},
    {"fusion_stage.layers.0.residual_layer2.convolution2.bias",
     "fusion_stage.layers.0.residual_layer1.convolution2.bias",
     "fusion_stage.layers.0.residual_layer2.convolution2.bias", kFusion},
    // DPTModel's last norm: a neck reads the states of several layers.
    {"dpt.encoder.layer.0.layernorm_before.weight", "dpt.layernorm.weight",
     "dpt.encoder.layer.0.layernorm_before.weight", kDptNorm},
    {"dpt.encoder.layer.0.layernorm_before.bias", "dpt.layernorm.bias",
     "dpt.encoder.layer.0.layernorm_before.bias", kDptNorm},
    // Poolers, of which a head or a caller reads nothing.
    {"bbox_embeddings.bbox_projection.weight", "pooler.dense.weight",
     "encoder.layer.0.attention.output.dense.weight", kBrosPooler},
    {"bbox_embeddings.bbox_projection.weight", "pooler.dense.bias",
     "encoder.layer.0.attention.output.dense.bias", kBrosPooler},
    {"temperature", "text_model.pooler.dense.weight",
     "text_model.encoder.layer.0.attention.output.dense.weight", kAlignPooler},
    {"temperature", "text_model.pooler.dense.bias",
     "text_model.encoder.layer.0.attention.output.dense.bias", kAlignPooler},
    {"decoder.bert.embeddings.token_type_embeddings.weight", "encoder.pooler.dense.weight",
     "encoder.encoder.layer.0.attention.output.dense.weight", kEncoder},
    {"decoder.bert.embeddings.token_type_embeddings.weight", "encoder.pooler.dense.bias",
     "encoder.encoder.layer.0.attention.output.dense.bias", kEncoder},
    {"decoder.roberta.embeddings.token_type_embeddings.weight", "encoder.pooler.dense.weight",
     "encoder.encoder.layer.0.attention.output.dense.weight", kEncoder},
    {"decoder.roberta.embeddings.token_type_embeddings.weight", "encoder.pooler.dense.bias",
     "encoder.encoder.layer.0.attention.output.dense.bias", kEncoder},
    {"encoder.layer.0.attention.self.query.weight",
     "pooler.weight",
     "encoder.layer.0.attention.output.dense.weight",
     kBigBird,
     "",
     {},
     kBigBirdQuery},
    {"encoder.layer.0.attention.self.query.bias",
     "pooler.bias",
     "encoder.layer.0.attention.output.dense.bias",
     kBigBird,
     "",
     {},
     kBigBirdQuery},
    // SiglipTextModel's, as wide as it is unless it is told otherwise.
    {"embeddings.token_embedding.weight",
     "head.weight",
     "encoder.layers.0.self_attn.out_proj.weight",
     kSiglipHead,
     "",
     {},
     kSiglipActivation},
    {"embeddings.token_embedding.weight",
     "head.bias",
     "encoder.layers.0.self_attn.out_proj.bias",
     kSiglipHead,
     "",
     {},
     kSiglipActivation},
    // Wav2Vec2Model's and its kin's, read where frames are masked.
    {"feature_projection.projection.bias",
     "masked_spec_embed",
     "feature_projection.projection.bias",
     {kTransformers, "models/wav2vec2/modeling_wav2vec2.py",
      "self.masked_spec_embed = nn.Parameter("}},
    // Towers of FlavaModel, of whose states projections read a layer's, and its losses'
    // projections.
    {"image_to_mm_projection.weight", "text_model.layernorm.weight",
     "text_model.encoder.layer.0.layernorm_before.weight", kFlavaNorm},
    {"image_to_mm_projection.weight", "text_model.layernorm.bias",
     "text_model.encoder.layer.0.layernorm_before.bias", kFlavaNorm},
    {"image_to_mm_projection.weight", "text_model.pooler.dense.weight",
     "text_model.encoder.layer.0.attention.output.dense.weight", kFlavaPooler},
    {"image_to_mm_projection.weight", "text_model.pooler.dense.bias",
     "text_model.encoder.layer.0.attention.output.dense.bias", kFlavaPooler},
    {"image_to_mm_projection.weight", "image_model.layernorm.weight",
     "image_model.encoder.layer.0.layernorm_before.weight", kFlavaNorm},
    {"image_to_mm_projection.weight", "image_model.layernorm.bias",
     "image_model.encoder.layer.0.layernorm_before.bias", kFlavaNorm},
    {"image_to_mm_projection.weight", "image_model.pooler.dense.weight",
     "image_model.encoder.layer.0.attention.output.dense.weight", kFlavaPooler},
    {"image_to_mm_projection.weight", "image_model.pooler.dense.bias",
     "image_model.encoder.layer.0.attention.output.dense.bias", kFlavaPooler},
    {"image_to_mm_projection.weight", "multimodal_model.pooler.dense.weight",
     "multimodal_model.encoder.layer.0.attention.output.dense.weight", kFlavaPooler},
    {"image_to_mm_projection.weight", "multimodal_model.pooler.dense.bias",
     "multimodal_model.encoder.layer.0.attention.output.dense.bias", kFlavaPooler},
    {"image_to_mm_projection.weight", "image_projection.weight", "image_to_mm_projection.weight",
     kFlavaProjection},
    {"image_to_mm_projection.bias", "image_projection.bias", "image_to_mm_projection.bias",
     kFlavaProjection},
    {"text_to_mm_projection.weight", "text_projection.weight", "text_to_mm_projection.weight",
     kFlavaProjection},
    {"text_to_mm_projection.bias", "text_projection.bias", "text_to_mm_projection.bias",
     kFlavaProjection},
    {"image_to_mm_projection.weight",
     "image_model.embeddings.mask_token",
     "image_model.embeddings.cls_token",
     {kTransformers, kFlavaFile, "self.mask_token = nn.Parameter("}},
    {"image_to_mm_projection.weight",
     "logit_scale",
     "",
     {kTransformers, kFlavaFile, "self.logit_scale = nn.Parameter("}},
    // OwlViTModel's, which its detector does not read.
    {"owlvit.text_projection.weight", "owlvit.logit_scale", "", kOwlScale},
    {"class_head.logit_shift.weight", "owlvit.visual_projection.weight",
     "owlvit.vision_model.post_layernorm.weight", kOwlProjection, "owlvit.text_projection.weight"},
    {"owlv2.text_projection.weight", "owlv2.logit_scale", "", kOwlScale},
    {"class_head.logit_shift.weight", "owlv2.visual_projection.weight",
     "owlv2.vision_model.post_layernorm.weight", kOwlProjection, "owlv2.text_projection.weight"},
    // SegGptEmbeddings', of one type at a time.
    {"embeddings.type_token_instance",
     "embeddings.type_token_semantic",
     "embeddings.type_token_instance",
     {kTransformers, "models/seggpt/modeling_seggpt.py",
      "self.type_token_semantic = nn.Parameter("}},
    // SamModel's scores of masks, masks that it is given, of 16 channels, and corners of boxes.
    {kSamHead,
     "mask_decoder.iou_prediction_head.proj_in.weight",
     "mask_decoder.output_hypernetworks_mlps.0.proj_in.bias",
     kSamScoresWidth,
     "",
     {256}},
    {kSamHead, "mask_decoder.iou_prediction_head.proj_in.bias", "", kSamScores, "", {256}},
    {kSamHead,
     "mask_decoder.iou_prediction_head.proj_out.weight",
     "",
     kSamScores,
     "mask_decoder.mask_tokens.weight",
     {256}},
    {kSamHead, "mask_decoder.iou_prediction_head.proj_out.bias", "", kSamScores,
     "mask_decoder.mask_tokens.weight"},
    {kSamHead, "mask_decoder.iou_prediction_head.layers.0.weight", "", kSamScores, "", {256, 256}},
    {kSamHead, "mask_decoder.iou_prediction_head.layers.0.bias", "", kSamScores, "", {256}},
    {kSamPrompts, "prompt_encoder.mask_embed.conv1.weight", "", kSamMasks, "", {4, 1, 2, 2}},
    {kSamPrompts, "prompt_encoder.mask_embed.conv1.bias", "", kSamMasks, "", {4}},
    {kSamPrompts, "prompt_encoder.mask_embed.conv2.weight", "", kSamChannels, "", {16, 4, 2, 2}},
    {kSamPrompts, "prompt_encoder.mask_embed.conv2.bias", "", kSamMasks, "", {16}},
    {kSamHead, "prompt_encoder.mask_embed.conv3.weight", "", kSamMasks, kSamHidden, {16, 1, 1}},
    {kSamHead, "prompt_encoder.mask_embed.conv3.bias", "", kSamMasks, kSamHidden},
    {kSamPrompts, "prompt_encoder.mask_embed.layer_norm1.weight", "", kSamMasks, "", {4}},
    {kSamPrompts, "prompt_encoder.mask_embed.layer_norm1.bias", "", kSamMasks, "", {4}},
    {kSamPrompts, "prompt_encoder.mask_embed.layer_norm2.weight", "", kSamMasks, "", {16}},
    {kSamPrompts, "prompt_encoder.mask_embed.layer_norm2.bias", "", kSamMasks, "", {16}},
    {"prompt_encoder.point_embed.0.weight", "prompt_encoder.point_embed.2.weight",
     "prompt_encoder.point_embed.0.weight", kSamPoints},
    {"prompt_encoder.point_embed.0.weight", "prompt_encoder.point_embed.3.weight",
     "prompt_encoder.point_embed.0.weight", kSamPoints},
    // LwDetrForObjectDetection's classes, where boxes alone are read.
    {"model.enc_out_class_embed.0.weight",
     "class_embed.weight",
     "model.enc_out_class_embed.0.weight",
     {kTransformers, "models/lw_detr/modeling_lw_detr.py", "self.class_embed = nn.Linear("}},
    {"model.enc_out_class_embed.0.bias",
     "class_embed.bias",
     "model.enc_out_class_embed.0.bias",
     {kTransformers, "models/lw_detr/modeling_lw_detr.py", "self.class_embed = nn.Linear("}},
    // PPLCNetV3LearnableRepLayer's activation, where it strides.
    {"depthwise_convolution.lab.scale", "depthwise_convolution.act.lab.scale",
     "depthwise_convolution.lab.scale", kStrided},
    {"depthwise_convolution.lab.bias", "depthwise_convolution.act.lab.bias",
     "depthwise_convolution.lab.bias", kStrided},
    // ClapModel's of texts: similarities of sounds have its other one.
    {"logit_scale_a",
     "logit_scale_t",
     "",
     {kTransformers, "models/clap/modeling_clap.py", "self.logit_scale_t = nn.Parameter("}},
    // A second head of boxes, of one number each.
    {"owlv2.text_projection.weight", "objectness_head.dense0.weight", "box_head.dense0.weight",
     kObjectness},
    {"owlv2.text_projection.weight", "objectness_head.dense0.bias", "box_head.dense0.bias",
     kObjectness},
    {"owlv2.text_projection.weight", "objectness_head.dense1.weight", "box_head.dense1.weight",
     kObjectness},
    {"owlv2.text_projection.weight", "objectness_head.dense1.bias", "box_head.dense1.bias",
     kObjectness},
    {"owlv2.text_projection.weight", "objectness_head.dense2.weight",
     "class_head.logit_shift.weight", kObjectness},
    {"owlv2.text_projection.weight", "objectness_head.dense2.bias", "class_head.logit_shift.bias",
     kObjectness},
};

}  // namespace

std::span<const UnreadChild> UnreadChildren() { return kUnreadChildren; }

std::span<const UnreadParameter> UnreadParameters() { return kUnreadParameters; }

}  // namespace onnxfit

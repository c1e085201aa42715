#include "estimator/program/libraries.h"

#include <algorithm>
#include <iterator>

#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr std::string_view kTorch = "torch 2.11.0";
constexpr std::string_view kTorchvision = "torchvision 0.26.0";
constexpr std::string_view kTransformers = "transformers 5.17.0";
constexpr std::string_view kTimm = "timm 1.0.31";
constexpr std::string_view kDiffusers = "diffusers 0.42.1";

// Whether `path` is `tail`, or ends with it as a module's name.
bool EndsWith(std::string_view path, std::string_view tail) {
  return path.ends_with(tail) &&
         (path.size() == tail.size() || path[path.size() - tail.size() - 1] == '.');
}

// --- Dropouts -------------------------------------------------------------------------------

// Of transformers' classes, those of models that read words and have no rotary embedding, or have
// no attention: LikelyDropsOut tells the others by what they read.
constexpr DropoutDefault kDropoutDefaults[] = {
    {"timm.", true, {kTimm, "models/vision_transformer.py", "proj_drop_rate: float = 0."}},
    {"diffusers.", true, {kDiffusers, "models/attention.py", "dropout=0.0"}},
    {"transformers.models.albert.",
     true,
     {kTransformers, "models/albert/configuration_albert.py",
      "hidden_dropout_prob: int | float = 0.0"}},
    {"transformers.models.bit.",
     true,
     {kTransformers, "models/bit/configuration_bit.py", "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.bloom.",
     true,
     {kTransformers, "models/bloom/configuration_bloom.py", "hidden_dropout: float | int = 0.0"}},
    {"transformers.models.codegen.",
     true,
     {kTransformers, "models/codegen/configuration_codegen.py", "resid_pdrop: float | int = 0.0"}},
    {"transformers.models.convnext.",
     true,
     {kTransformers, "models/convnext/configuration_convnext.py",
      "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.convnextv2.",
     true,
     {kTransformers, "models/convnextv2/configuration_convnextv2.py",
      "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.cpmant.",
     true,
     {kTransformers, "models/cpmant/configuration_cpmant.py", "dropout_p: float | int = 0.0"}},
    {"transformers.models.gpt_neo.",
     true,
     {kTransformers, "models/gpt_neo/configuration_gpt_neo.py",
      "resid_dropout: float | int = 0.0"}},
    {"transformers.models.gpt_neox.",
     true,
     {kTransformers, "models/gpt_neox/configuration_gpt_neox.py",
      "hidden_dropout: float | int = 0.0"}},
    {"transformers.models.gptj.",
     true,
     {kTransformers, "models/gptj/configuration_gptj.py", "resid_pdrop: float | int = 0.0"}},
    {"transformers.models.mobilebert.",
     false,
     {kTransformers, "models/mobilebert/configuration_mobilebert.py",
      "hidden_dropout_prob: float | int = 0.0"}},
    {"transformers.models.mpt.",
     true,
     {kTransformers, "models/mpt/configuration_mpt.py", "resid_pdrop: float | int = 0.0"}},
    {"transformers.models.poolformer.",
     true,
     {kTransformers, "models/poolformer/configuration_poolformer.py",
      "drop_path_rate: float | int = 0.0"}},
    {"transformers.models.rembert.",
     true,
     {kTransformers, "models/rembert/configuration_rembert.py",
      "hidden_dropout_prob: float | int = 0.0"}},
    {"transformers.models.swiftformer.",
     true,
     {kTransformers, "models/swiftformer/configuration_swiftformer.py",
      "drop_mlp_rate: float | int = 0.0"}},
};

constexpr auto kBeforeLayer = DropoutBeside::Where::kBeforeLayer;
constexpr auto kBehindNorm = DropoutBeside::Where::kBehindNorm;
constexpr auto kInsideBranch = DropoutBeside::Where::kInsideBranch;

constexpr DropoutBeside kDropoutsBeside[] = {
    {"linear2",
     "",
     kBeforeLayer,
     {kTorch, "nn/modules/transformer.py",
      "self.linear2(self.dropout(self.activation(self.linear1(x))))"}},
    {"wo",
     "DenseReluDense",
     kBeforeLayer,
     {kTransformers, "models/t5/modeling_t5.py", "hidden_states = self.wo(hidden_states)"}},
    // RobertaClassificationHead drops out twice.
    {"dense",
     "classifier",
     kBeforeLayer,
     {kTransformers, "models/roberta/modeling_roberta.py", "class RobertaClassificationHead("}},
    // T5Stack's.
    {"final_layer_norm",
     "",
     kBehindNorm,
     {kTransformers, "models/t5/modeling_t5.py",
      "hidden_states = self.final_layer_norm(hidden_states)\n        hidden_states = "
      "self.dropout(hidden_states)"}},
    // Also nanoGPT's.
    {"c_proj",
     "",
     kInsideBranch,
     {kTransformers, "models/gpt2/modeling_gpt2.py",
      "attn_output = self.c_proj(attn_output)\n        attn_output = "
      "self.resid_dropout(attn_output)"}},
};

constexpr UndroppedBlock kUndroppedBlocks[] = {
    {"c_fc",
     "c_proj",
     {kTransformers, "models/gpt2/modeling_gpt2.py",
      "hidden_states = self.act(hidden_states)\n        hidden_states = "
      "self.c_proj(hidden_states)"}},
    {"mlp.fc_in",
     "mlp.fc_out",
     {kTransformers, "models/gptj/modeling_gptj.py",
      "hidden_states = self.act(hidden_states)\n        hidden_states = "
      "self.fc_out(hidden_states)"}},
    {"dense_h_to_4h",
     "dense_4h_to_h",
     {kTransformers, "models/gpt_neox/modeling_gpt_neox.py",
      "hidden_states = self.act(hidden_states)\n        hidden_states = "
      "self.dense_4h_to_h(hidden_states)"}},
    {"ffn.lin1",
     "ffn.lin2",
     {kTransformers, "models/distilbert/modeling_distilbert.py",
      "x = self.activation(x)\n        x = self.lin2(x)"}},
    {"ffn",
     "ffn_output",
     {kTransformers, "models/albert/modeling_albert.py",
      "ffn_output = self.activation(ffn_output)\n        ffn_output = "
      "self.ffn_output(ffn_output)"}},
};

// Names in fairseq's layers, which transformers' BART and OPT have, too.
enum class FairseqPart : uint8_t { kFirstBias, kSecondLayer, kNorm, kAttention, kProjection };
struct FairseqName {
  FairseqPart part;
  std::string_view name;
  SeenIn seen;
};

constexpr std::string_view kBart = "models/bart/modeling_bart.py";
constexpr FairseqName kFairseqNames[] = {
    {FairseqPart::kFirstBias, "fc1.bias", {kTransformers, kBart, "self.fc1 = nn.Linear("}},
    {FairseqPart::kSecondLayer,
     "fc2",
     {kTransformers, "models/bart/configuration_bart.py",
      "activation_dropout: float | int | None = 0.0"}},
    {FairseqPart::kNorm, "final_layer_norm", {kTransformers, kBart, "self.final_layer_norm ="}},
    {FairseqPart::kAttention,
     "self_attn",
     {kTransformers, kBart, "self.self_attn = BartAttention("}},
    {FairseqPart::kAttention,
     "encoder_attn",
     {kTransformers, kBart, "self.encoder_attn = BartAttention("}},
    {FairseqPart::kProjection, "out_proj", {kTransformers, kBart, "self.out_proj = nn.Linear("}},
};

bool IsNameOf(FairseqPart part, std::string_view name) {
  return std::ranges::any_of(
      kFairseqNames, [&](const FairseqName& row) { return row.part == part && row.name == name; });
}

std::string NameBelow(std::string_view layer, FairseqPart part) {
  const auto* const row = std::ranges::find(kFairseqNames, part, &FairseqName::part);
  return std::string(layer) + "." + std::string(row->name);
}

struct NameFact {
  std::string_view name;
  SeenIn seen;
  std::string_view other = {};  // where the fact is of two
};

constexpr NameFact kEndWithDropout[] = {
    {"embeddings",
     {kTransformers, "models/bert/modeling_bert.py", "embeddings = self.dropout(embeddings)"}},
};

// OPTDecoder, which stands without an encoder, reads its words as they are.
constexpr NameFact kWithoutWordDropout[] = {
    {"decoder", {kTransformers, "models/opt/modeling_opt.py", "class OPTDecoder("}, "encoder"},
};

constexpr StochasticDepthBlock kStochasticDepthBlocks[] = {
    {"torchvision.models.convnext.CNBlock",
     "result += input",
     0,
     {kTorchvision, "models/convnext.py", "result += input"}},
    {"torchvision.models.efficientnet.MBConv",
     "result += input",
     0,
     {kTorchvision, "models/efficientnet.py", "class MBConv("}},
    {"torchvision.models.efficientnet.FusedMBConv",
     "result += input",
     0,
     {kTorchvision, "models/efficientnet.py", "class FusedMBConv("}},
    {"torchvision.models.swin_transformer.SwinTransformerBlock",
     "x = x + self.stochastic_depth(",
     1,
     {kTorchvision, "models/swin_transformer.py",
      "x = x + self.stochastic_depth(self.mlp(self.norm2(x)))"}},
    {"torchvision.models.swin_transformer.SwinTransformerBlockV2",
     "x = x + self.stochastic_depth(",
     1,
     {kTorchvision, "models/swin_transformer.py",
      "x = x + self.stochastic_depth(self.norm2(self.mlp(x)))"}},
};

// --- In place -------------------------------------------------------------------------------

constexpr auto kOutOfPlace = ActivationUse::kOutOfPlace;
constexpr auto kNotKnown = ActivationUse::kUnknown;
constexpr auto kInPlace = ActivationUse::kInPlace;

// Of torchvision's, some have both, and some make GELU alone, or are told by their children.
constexpr ActivationRow kActivationRows[] = {
    // Norms with an activation, which is told so; gates, which have a default of their own.
    {"timm.layers.norm_act.", kInPlace, {kTimm, "layers/norm_act.py", "inplace: bool = True,"}},
    {"timm.layers.squeeze_excite.",
     kInPlace,
     {kTimm, "layers/squeeze_excite.py", "self.act = create_act_layer(act_layer, inplace=True)"}},
    {"timm.layers.activations.Sigmoid",
     kOutOfPlace,
     {kTimm, "layers/squeeze_excite.py", "self.gate = create_act_layer(gate_layer)"}},
    {"timm.layers.activations.HardSigmoid",
     kOutOfPlace,
     {kTimm, "layers/squeeze_excite.py", "self.gate = create_act_layer(gate_layer)"}},
    {"timm.models.cspnet.",
     kOutOfPlace,
     {kTimm, "models/cspnet.py", "self.act3 = create_act_layer(act_layer)"}},
    {"diffusers.", kOutOfPlace, {kDiffusers, "models/activations.py", "\"relu\": nn.ReLU"}},
    {"transformers.", kOutOfPlace, {kTransformers, "activations.py", "\"relu\": nn.ReLU,"}},
    {"torchvision.models.segmentation.",
     kNotKnown,
     {kTorchvision, "models/segmentation/fcn.py", "nn.ReLU(),"}},
    {"torchvision.models.detection.",
     kNotKnown,
     {kTorchvision, "models/detection/fcos.py", "conv.append(nn.ReLU())"}},
    {"torchvision.models.optical_flow.",
     kNotKnown,
     {kTorchvision, "models/optical_flow/raft.py", "self.relu = nn.ReLU(inplace=True)"}},
    {"torchvision.models.maxvit.", kNotKnown, {kTorchvision, "models/maxvit.py", "inplace=None"}},
    {"torchvision.models.quantization.",
     kNotKnown,
     {kTorchvision, "models/quantization/resnet.py", "class QuantizableBasicBlock("}},
    {"torchvision.ops.misc.SqueezeExcitation",
     kNotKnown,
     {kTorchvision, "ops/misc.py", "activation: Callable[..., torch.nn.Module] = torch.nn.ReLU,"}},
    {"torchvision.ops.feature_pyramid_network.",
     kNotKnown,
     {kTorchvision, "ops/feature_pyramid_network.py", "class FeaturePyramidNetwork("}},
    {"torchvision.", kInPlace, {kTorchvision, "ops/misc.py", "inplace: Optional[bool] = True,"}},
};

constexpr auto kActivations = InPlaceChildren::Of::kActivations;
constexpr auto kSums = InPlaceChildren::Of::kSums;
constexpr SeenIn kResNet = {kTorchvision, "models/resnet.py", "out += identity"};
constexpr SeenIn kVgg = {kTorchvision, "models/vgg.py", "nn.ReLU(inplace=True)"};
constexpr SeenIn kEfficientNet = {kTorchvision, "models/efficientnet.py", "result += input"};
constexpr SeenIn kMobileNetV2 = {kTorchvision, "models/mobilenetv2.py", "return x + self.conv(x)"};

constexpr SeenIn kTimmStages = {kTimm, "models/cspnet.py", "+ shortcut"};

// "*" is a child of any name.
constexpr InPlaceChildren kInPlaceModules[] = {
    // ResNet; BasicBlock and Bottleneck, with "out += identity".
    {{"conv1", "relu", "maxpool", "layer1"}, "relu", false, kActivations, true, kResNet},
    {{"conv1", "relu", "maxpool", "layer1"}, "layer*.relu*", false, kActivations, true, kResNet},
    {{"conv1", "relu", "maxpool", "layer1"}, "layer*", true, kSums, true, kResNet},
    // AlexNet, VGG; Conv2dNormActivation of ops/misc.py and MBConv's "result += input".
    {{"features", "avgpool", "classifier"}, "features.*", true, kActivations, true, kVgg},
    {{"features", "avgpool", "classifier"}, "classifier.*", true, kActivations, true, kVgg},
    {{"features.*.*.block", "avgpool"}, "features.*", true, kActivations, true, kEfficientNet},
    {{"features.*.*.block", "avgpool"}, "features.*", true, kSums, true, kEfficientNet},
    // DenseNet's own forward.
    {{"features.denseblock1", "classifier"},
     "",
     false,
     kActivations,
     true,
     {kTorchvision, "models/densenet.py", "out = F.relu(features, inplace=True)"}},
    // ResBottleneck of timm's CspNet, whose act3 is made without arguments.
    {{"stages.*.blocks.*.act3", "head.global_pool"},
     "stages.*.act3",
     false,
     kActivations,
     false,
     {kTimm, "models/cspnet.py", "self.act3 = create_act_layer(act_layer)"}},
    // timm's stages of blocks.
    {{"stages.*.*", "head.global_pool"}, "stages.*", false, kSums, false, kTimmStages},
    {{"stages.*.*", "head.global_pool"}, "stages.*", true, kSums, false, kTimmStages},
    // Conv2dNormActivation; InvertedResidual's "x + self.conv(x)".
    {{"features.*.0", "features.*.conv.0"}, "features.*", true, kActivations, true, kMobileNetV2},
    {{"features.*.0", "features.*.conv.0"}, "features.*", true, kSums, false, kMobileNetV2},
};

// BatchNormAct2d's.
constexpr NameFact kActivationsOfNorms[] = {
    {"act", {kTimm, "layers/norm_act.py", "inplace: bool = True"}},
};

// --- Parameters and buffers -----------------------------------------------------------------

// Llama and its kin: Mistral, Mixtral, Qwen2, Qwen3, OLMo2, Granite, StableLM.
constexpr NameFact kOwnHeads[] = {
    {"mlp.gate_proj",
     {kTransformers, "models/llama/configuration_llama.py", "tie_word_embeddings: bool = False"}},
};

constexpr NameFact kFloatBuffers[] = {
    {"pe", {}},  // PyTorch's tutorial on transformers
    {"final_logits_bias", {kTransformers, "models/bart/modeling_bart.py", "\"final_logits_bias\""}},
    {"inv_freq", {kTransformers, "models/llama/modeling_llama.py", "self.inv_freq = nn.Buffer("}},
    {"mask", {}},
    {"masked_bias", {}},  // GPT-2's before transformers 4.30, and nanoGPT's
    // Code that computes rotations, positions and masks once.
    {"freqs_cis", {}},
    {"cos_cached", {}},
    {"sin_cached", {}},
    {"cos_cache", {}},
    {"sin_cache", {}},
    {"position_ids", {}},
    {"causal_mask", {}},
    {"attn_mask", {}},
};

constexpr UnreadChild kUnreadChildren[] = {
    // CLIPVisionTransformer's last norm makes the pooled output, which a classifier of patches does
    // not read (CLIPForImageClassification).
    {"pre_layrnorm",
     "post_layernorm",
     {kTransformers, "models/clip/modeling_clip.py", "self.pre_layrnorm = nn.LayerNorm("}},
};

constexpr UnreadParameter kUnreadParameters[] = {
    // Dinov2Embeddings', read where patches are masked.
    {"encoder.layer.0.layer_scale1.lambda1",
     "embeddings.mask_token",
     "embeddings.cls_token",
     {kTransformers, "models/dinov2/modeling_dinov2.py", "self.mask_token = nn.Parameter("}},
};

constexpr PositionBuffer kPositionBuffers[] = {
    {"position_embedding",
     "position_ids",
     {kTransformers, "models/clip/modeling_clip.py",
      "self.position_ids = nn.Buffer(torch.arange("}},
    {"position_embeddings",
     "position_ids",
     {kTransformers, "models/bert/modeling_bert.py",
      "self.position_ids = nn.Buffer(torch.arange("}},
    {"position_embeddings",
     "token_type_ids",
     {kTransformers, "models/bert/modeling_bert.py",
      "self.token_type_ids = nn.Buffer(torch.zeros("}},
};

constexpr std::string_view kBertFile = "models/bert/modeling_bert.py";
constexpr std::string_view kSiglip = "models/siglip/modeling_siglip.py";
constexpr std::string_view kXlnet = "models/xlnet/modeling_xlnet.py";
constexpr std::string_view kActivationFile = "nn/modules/activation.py";
constexpr UnreadTensorRow kUnreadTensors[] = {
    // Poolers, whose result the model returns and its head does not read.
    {"pooler.dense.weight",
     {1, 1},
     "",
     {kTransformers, kBertFile, "self.dense = nn.Linear(config.hidden_size, config.hidden_size)"}},
    {"pooler.dense.bias",
     {1},
     "",
     {kTransformers, kBertFile, "self.dense = nn.Linear(config.hidden_size, config.hidden_size)"}},
    {"pooler.weight",
     {1, 1},
     "",
     {kTransformers, "models/big_bird/modeling_big_bird.py",
      "self.pooler = nn.Linear(config.hidden_size, config.hidden_size)"}},
    {"pooler.bias",
     {1},
     "",
     {kTransformers, "models/big_bird/modeling_big_bird.py",
      "self.pooler = nn.Linear(config.hidden_size, config.hidden_size)"}},
    // SiglipMultiheadAttentionPoolingHead, likewise.
    {"probe",
     {-1, -1, 1},
     "",
     {kTransformers, kSiglip, "self.probe = nn.Parameter(torch.randn(1, 1, config.hidden_size))"}},
    {"layernorm.weight", {1}, "", {kTransformers, kSiglip, "self.layernorm = nn.LayerNorm("}},
    {"layernorm.bias", {1}, "", {kTransformers, kSiglip, "self.layernorm = nn.LayerNorm("}},
    {"attention.in_proj_weight",
     {3, 1},
     "",
     {kTorch, kActivationFile, "torch.empty((3 * embed_dim, embed_dim)"}},
    {"attention.in_proj_bias",
     {3},
     "",
     {kTorch, kActivationFile, "torch.empty(3 * embed_dim, **factory_kwargs)"}},
    {"attention.out_proj.weight", {1, 1}, "", {kTorch, kActivationFile, "self.out_proj ="}},
    {"attention.out_proj.bias", {1}, "", {kTorch, kActivationFile, "self.out_proj ="}},
    // Tokens in place of what is masked in pretraining.
    {"mask_token",
     {-1, 1},
     "",
     {kTransformers, "models/dinov2/modeling_dinov2.py",
      "self.mask_token = nn.Parameter(torch.zeros(1, config.hidden_size))"}},
    {"mask_emb",
     {-1, -1, 1},
     "",
     {kTransformers, kXlnet, "self.mask_emb = nn.Parameter(torch.FloatTensor(1, 1,"}},
    // Segments, of which there is one.
    {"r_s_bias",
     {},
     "r_r_bias",
     {kTransformers, kXlnet, "self.r_s_bias = nn.Parameter(torch.FloatTensor(self.n_head,"}},
    {"seg_embed",
     {-2},
     "r_r_bias",
     {kTransformers, kXlnet, "self.seg_embed = nn.Parameter(torch.FloatTensor(2, self.n_head,"}},
    // Attention of sampled blocks, of which a short sequence has none.
    {"self.key.weight",
     {},
     "self.query.weight",
     {kTransformers, "models/mra/modeling_mra.py", "self.key = nn.Linear("}},
    {"self.key.bias",
     {},
     "self.query.bias",
     {kTransformers, "models/mra/modeling_mra.py", "self.key = nn.Linear("}},
    {"self.value.weight",
     {},
     "self.query.weight",
     {kTransformers, "models/mra/modeling_mra.py", "self.value = nn.Linear("}},
    {"self.value.bias",
     {},
     "self.query.bias",
     {kTransformers, "models/mra/modeling_mra.py", "self.value = nn.Linear("}},
};

constexpr UnreadMask kUnreadMasks[] = {
    {"bias",
     "wpe.weight",
     {kTransformers, "models/gpt_bigcode/modeling_gpt_bigcode.py", "self.bias = nn.Buffer("}},
};

constexpr NameFact kTiedBiases[] = {
    {"decoder",
     {kTransformers, "models/roberta/modeling_roberta.py",
      "\"lm_head.decoder.bias\": \"lm_head.bias\""}},
};

constexpr NameFact kIndexedOnce[] = {
    {"attention_biases",
     {kTimm, "models/levit.py",
      "self.attention_bias_cache[device_key] = self.attention_biases[:, "
      "self.attention_bias_idxs]"}},
};

// Of functions under @compile_compatible_method_lru_cache whose arguments are sizes alone.
constexpr NameFact kCachedFunctions[] = {
    {"get_patches_center_coordinates",
     {kTransformers, "models/dinov3_vit/modeling_dinov3_vit.py",
      "@compile_compatible_method_lru_cache(maxsize=32)\ndef get_patches_center_coordinates("}},
    {"_cached_build_2d_sinusoidal_position_embedding",
     {kTransformers, "models/rt_detr/modeling_rt_detr.py",
      "@compile_compatible_method_lru_cache(maxsize=32)\n"
      "    def _cached_build_2d_sinusoidal_position_embedding("}},
    {"_cached_generate_anchors",
     {kTransformers, "models/rt_detr/modeling_rt_detr.py",
      "@compile_compatible_method_lru_cache(maxsize=32)\n    def _cached_generate_anchors("}},
};

constexpr NameFact kClones[] = {
    {"original_",
     {kTransformers, "models/llama/modeling_llama.py", "self.original_inv_freq = nn.Buffer("}},
};

constexpr NameFact kRotaryEmbeddings[] = {
    {"rotary_emb",
     {kTransformers, "models/llama/modeling_llama.py", "self.rotary_emb = LlamaRotaryEmbedding("}},
};

constexpr NameFact kEmbeddings[] = {
    {"embeddings",
     {kTransformers, "models/bert/modeling_bert.py", "self.embeddings = BertEmbeddings("}},
};

// --- Names of Python's ----------------------------------------------------------------------

constexpr SeenIn kBert = {kTransformers, "models/bert/modeling_bert.py",
                          "hidden_states = self.dense(hidden_states)"};
constexpr SeenIn kRobertaIds = {kTransformers, "models/roberta/modeling_roberta.py",
                                "incremental_indices = "};
constexpr SeenIn kAlbert = {kTransformers, "models/albert/modeling_albert.py",
                            "ffn_output = self.ffn_output(ffn_output)"};
constexpr SeenIn kT5Layers = {kTransformers, "models/t5/modeling_t5.py",
                              "normed_hidden_states = self.layer_norm(hidden_states)"};
constexpr SeenIn kT5Gated = {kTransformers, "models/t5/modeling_t5.py",
                             "hidden_linear = self.wi_1(hidden_states)"};
constexpr SeenIn kEncoderDecoder = {kTransformers, "models/t5/modeling_t5.py",
                                    "decoder_outputs = self.decoder("};

constexpr KnownNameRow kKnownNameRows[] = {
    // BertSelfOutput, BertOutput (also of ELECTRA, RoBERTa).
    {{"dense", "LayerNorm"}, "dense", "hidden_states", {"dropout", "LayerNorm"}, false, kBert},
    {{"dense", "dropout", "LayerNorm"}, "dropout", "hidden_states", {"LayerNorm"}, false, kBert},
    // BertEmbeddings, also copied by others: the types of tokens, of a buffer.
    {{"token_type_embeddings"},
     "gather",
     "buffered_token_type_ids",
     {},
     false,
     {kTransformers, "models/bert/modeling_bert.py", "buffered_token_type_ids = torch.gather("}},
    // RobertaEmbeddings: mask and incremental_indices of its positions.
    {{"word_embeddings", "position_embeddings", "token_type_embeddings"},
     "mul",
     "indices",
     {"expand"},
     false,
     kRobertaIds},
    {{"word_embeddings", "position_embeddings", "token_type_embeddings"},
     "to",
     "mask",
     {"expand"},
     false,
     kRobertaIds},
    // AlbertLayer, whose ff_chunk returns what ffn_output made.
    {{"attention", "ffn_output", "full_layer_layer_norm"},
     "attention",
     "attention_output",
     {},
     false,
     kAlbert},
    {{"attention", "ffn_output", "full_layer_layer_norm"},
     "ffn_output",
     "ffn_output",
     {},
     false,
     kAlbert},
    // BertModel, ViTModel, and those that are built like them.
    {{"embeddings", "!embeddings_project"},
     "embeddings",
     "embedding_output",
     {},
     false,
     {kTransformers, "models/bert/modeling_bert.py", "embedding_output = self.embeddings("}},
    {{"embeddings", "encoder"},
     "encoder",
     "encoder_outputs",
     {},
     true,
     {kTransformers, "models/bert/modeling_bert.py", "encoder_outputs = self.encoder("}},
    {{"embeddings", "layernorm"},
     "layernorm",
     "sequence_output",
     {},
     true,
     {kTransformers, "models/vit/modeling_vit.py", "sequence_output = self.layernorm("}},
    // T5LayerSelfAttention, T5LayerCrossAttention, T5LayerFF, T5DenseGatedActDense.
    {{"SelfAttention", "layer_norm"}, "layer_norm", "normed_hidden_states", {}, false, kT5Layers},
    {{"SelfAttention", "layer_norm"}, "SelfAttention", "attention_output", {}, false, kT5Layers},
    {{"EncDecAttention", "layer_norm"}, "layer_norm", "normed_hidden_states", {}, false, kT5Layers},
    {{"EncDecAttention", "layer_norm"},
     "EncDecAttention",
     "attention_output",
     {},
     false,
     kT5Layers},
    {{"DenseReluDense", "layer_norm"}, "DenseReluDense", "forwarded_states", {}, false, kT5Layers},
    {{"wi_0", "wi_1", "wo"}, "act", "hidden_gelu", {}, false, kT5Gated},
    {{"wi_0", "wi_1", "wo"}, "wi_1", "hidden_linear", {}, false, kT5Gated},
    // timm's SEModule and SqueezeExcite: "return x * self.gate(x_se)".
    {{"fc1", "fc2", "gate"},
     "fc2",
     "x_se",
     {},
     false,
     {kTimm, "layers/squeeze_excite.py", "return x * self.gate(x_se)"}},
    {{"conv_reduce", "conv_expand", "gate"},
     "conv_expand",
     "x_se",
     {},
     false,
     {kTimm, "models/_efficientnet_blocks.py", "return x * self.gate(x_se)"}},
    // T5ForConditionalGeneration, BartModel.
    {{"encoder", "decoder"}, "encoder", "encoder_outputs", {}, true, kEncoderDecoder},
    {{"encoder", "decoder"}, "decoder", "decoder_outputs", {}, true, kEncoderDecoder},
};

// SelectAdaptivePool2d, and vgg.py's ConvMlp, in "x = self.forward_head(x)".
constexpr NameFact kHeadChildren[] = {
    {"global_pool", {kTimm, "models/resnet.py", "x = self.forward_head(x)"}},
    {"in_conv", {kTimm, "models/lowformer.py", "x = self.forward_head(x)"}},
    {"pre_logits", {kTimm, "models/vgg.py", "x = self.forward_head(x)"}},
};

constexpr SeenIn kPositionIds = {kTransformers, "models/roberta/modeling_roberta.py",
                                 "def create_position_ids_from_input_ids("};
constexpr SeenIn kDisentangled = {kTransformers, "models/deberta_v2/modeling_deberta_v2.py",
                                  "def disentangled_attention_bias("};
constexpr SeenIn kComputeBias = {kTransformers, "models/t5/modeling_t5.py", "def compute_bias("};
constexpr SeenIn kMultiHead = {kTorch, "nn/functional.py", "def multi_head_attention_forward("};

constexpr HelperLocal kHelperLocals[] = {
    // The positions without padding's, the mask.
    {"create_position_ids_from_input_ids", "mul", true, false, "", kPositionIds},
    {"create_position_ids_from_input_ids", "cumsum", false, true, "", kPositionIds},
    // pos_key_layer, c2p_pos, c2p_att, and the same of p2c.
    {"disentangled_attention_bias", "repeat", true, false, "", kDisentangled},
    {"disentangled_attention_bias", "hardtanh", true, false, "", kDisentangled},
    {"disentangled_attention_bias", "clamp", true, false, "", kDisentangled},
    {"disentangled_attention_bias", "gather", true, false, "", kDisentangled},
    // relative_position = memory_position - context_position; is_small, relative_position and
    // relative_position_if_large in _relative_position_bucket.
    {"compute_bias", "sub", true, true, "", kComputeBias},
    {"compute_bias", "where", false, true, "embedding", kComputeBias},
    // The mask of create_position_bias_mask.
    {"attention_interface",
     "where",
     true,
     false,
     "",
     {kTransformers, "integrations/sdpa_attention.py", "def create_position_bias_mask("}},
    // q, k and v, and where weights are asked for, q_scaled.
    {"multi_head_attention_forward", "scaled_dot_product_attention", false, true, "", kMultiHead},
    {"multi_head_attention_forward", "baddbmm", false, true, "", kMultiHead},
    {"multi_head_attention_forward", "bmm", false, true, "", kMultiHead},
};

constexpr SeenIn kGroupedExperts = {kTransformers, "integrations/moe.py",
                                    "def grouped_mm_experts_forward("};
constexpr HelperFrame kHelperFrames[] = {
    // With biases, and with the limits of GPT-OSS's _apply_gate.
    {"experts_forward(",
     "expert_ids_g, perm = sort\n"
     "selected_hidden_states_g = index\n"
     "sample_weights_g = index\n"
     "histc_input = to\n"
     "tokens_per_expert = histc\n"
     "offsets = cumsum\n"
     "sentinel_mask = ge\n"
     "selected_biases = index\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "gate = clamp_max\n"
     "up = clamp\n"
     "scaled = mul.Scalar\n"
     "glu, -scaled = mul\n"
     "proj_out, -gate, -up, -glu = mul\n"
     "selected_biases = index\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "weighted_out = mul\n"
     "weighted_out = index\n",
     kGroupedExperts},
    {"experts_forward(",
     "expert_ids_g, perm = sort\n"
     "selected_hidden_states_g = index\n"
     "sample_weights_g = index\n"
     "histc_input = to\n"
     "tokens_per_expert = histc\n"
     "offsets = cumsum\n"
     "sentinel_mask = ge\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "proj_out = mul\n"
     "proj_out = _grouped_mm\n"
     "proj_out = masked_fill\n"
     "weighted_out = mul\n"
     "weighted_out = index\n",
     kGroupedExperts},
};

// DynamicLayer.update.
constexpr NameFact kReplacing[] = {
    {"past_key_values.update(",
     {kTransformers, "models/llama/modeling_llama.py", "past_key_values.update("}},
    {"cache.update(", {kTransformers, "cache_utils.py", "def update("}},
};

// Others return them if they are asked to, "output_attentions".
constexpr NameFact kReturningWeights[] = {
    {"self_outputs = self.self(",
     {kTransformers, "models/megatron_bert/modeling_megatron_bert.py",
      "return context_layer, attention_probs"}},
};

constexpr NameFact kEagerAttentionCalls[] = {
    {"attention_interface(",
     {kTransformers, "models/bert/modeling_bert.py", "= attention_interface("}},
};

// --- What torch.export's tracing does otherwise ---------------------------------------------

// A statement of a library's forward: parts of its file's path and of its text.
struct TracedStatement {
  std::string_view file;
  std::string_view text;
  SeenIn seen;
};

constexpr std::string_view kMasking = "masking_utils.py";
constexpr TracedStatement kMaskBuilders[] = {
    // _ignore_causal_mask_sdpa and _ignore_bidirectional_mask_sdpa skip masks, but not while
    // tracing.
    {"transformers/", "create_causal_mask(", {kTransformers, kMasking, "def create_causal_mask("}},
    {"transformers/",
     "create_bidirectional_mask(",
     {kTransformers, kMasking, "def create_bidirectional_mask("}},
    {"transformers/",
     "create_sliding_window_causal_mask(",
     {kTransformers, kMasking, "def create_sliding_window_causal_mask("}},
    {"transformers/",
     "create_bidirectional_sliding_window_mask(",
     {kTransformers, kMasking, "def create_bidirectional_sliding_window_mask("}},
    {"transformers/",
     "create_chunked_causal_mask(",
     {kTransformers, kMasking, "def create_chunked_causal_mask("}},
    // One of them, by a name of its own.
    {"transformers/",
     " mask_function(",
     {kTransformers, "models/ministral3/modeling_ministral3.py",
      "mask_function = create_causal_mask"}},
    // The same through a method of BertModel and its kin.
    {"transformers/",
     "_create_attention_masks(",
     {kTransformers, "models/bert/modeling_bert.py", "def _create_attention_masks("}},
};

// Which skip no mask.
constexpr TracedStatement kMasksAlwaysBuilt[] = {
    {"models/falcon/modeling_falcon.py",
     "create_causal_mask(",
     {kTransformers, "models/falcon/modeling_falcon.py", "allow_is_causal_skip=False"}},
};

constexpr TracedStatement kWeightCasts[] = {
    // T5LayerNorm and its copies: "if self.weight.dtype in [torch.float16, torch.bfloat16]:
    // hidden_states = hidden_states.to(self.weight.dtype)" before it.
    {"transformers/",
     "return self.weight * hidden_states",
     {kTransformers, "models/t5/modeling_t5.py",
      "if self.weight.dtype in [torch.float16, torch.bfloat16]:"}},
};

// Rotary embeddings: "with maybe_autocast(device_type=…, enabled=False)".  The statements of its
// body, in Llama's and its copies.
constexpr std::string_view kLlama = "models/llama/modeling_llama.py";
constexpr TracedStatement kOutsideAutocast[] = {
    {"transformers/", "freqs = (inv_freq_expanded", {kTransformers, kLlama, "(inv_freq_expanded"}},
    {"transformers/", "freqs = position_ids_expanded * self.inv_freq", {}},
    {"transformers/",
     "emb = torch.cat((freqs, freqs), dim=-1)",
     {kTransformers, kLlama, "emb = torch.cat((freqs, freqs), dim=-1)"}},
    {"transformers/", "cos = emb.cos() * ", {kTransformers, kLlama, "cos = emb.cos() * "}},
    {"transformers/", "sin = emb.sin() * ", {kTransformers, kLlama, "sin = emb.sin() * "}},
    {"transformers/", "cos = freqs.cos() * ", {}},
    {"transformers/", "sin = freqs.sin() * ", {}},
};

}  // namespace

bool NeverDropsOut(const std::vector<std::string>& classes, bool weighs) {
  const auto innermost =
      std::find_if(classes.rbegin(), classes.rend(),
                   [](const std::string& name) { return !name.starts_with("torch."); });
  if (innermost == classes.rend()) return false;
  return std::ranges::any_of(kDropoutDefaults, [&](const DropoutDefault& row) {
    return innermost->starts_with(row.classes) && (row.weights_too || !weighs);
  });
}

bool HasDropout(DropoutBeside::Where where, std::string_view path) {
  const std::string_view caller = ChildOf(ParentOf(path));
  if (where == kBehindNorm && IsNumbered(caller)) return false;
  return std::ranges::any_of(kDropoutsBeside, [&](const DropoutBeside& row) {
    return row.where == where && row.module == ChildOf(path) &&
           (row.caller.empty() || row.caller == caller);
  });
}

bool IsUndroppedBlock(std::string_view first, std::string_view second) {
  return std::ranges::any_of(kUndroppedBlocks, [&](const UndroppedBlock& row) {
    return EndsWith(first, row.first) && EndsWith(second, row.second);
  });
}

bool IsFairseqsSecondLayer(std::string_view path) {
  return IsNameOf(FairseqPart::kSecondLayer, ChildOf(path));
}

std::string FairseqsFirstBias(std::string_view layer) {
  return NameBelow(layer, FairseqPart::kFirstBias);
}

std::string FairseqsNorm(std::string_view layer) {
  return NameBelow(layer, FairseqPart::kNorm) + ".";
}

bool IsFairseqsProjection(std::string_view path, std::string_view caller) {
  return IsNameOf(FairseqPart::kProjection, ChildOf(path)) &&
         IsNameOf(FairseqPart::kAttention, ChildOf(caller));
}

bool EndsWithDropout(std::string_view name) {
  return std::ranges::find(kEndWithDropout, name, &NameFact::name) != std::end(kEndWithDropout);
}

std::string_view MissesWordDropoutWithout(std::string_view name) {
  const auto* const row = std::ranges::find(kWithoutWordDropout, name, &NameFact::name);
  return row == std::end(kWithoutWordDropout) ? std::string_view() : row->other;
}

std::span<const StochasticDepthBlock> StochasticDepthBlocks() { return kStochasticDepthBlocks; }

ActivationUse ActivationsOf(std::string_view holder) {
  const auto* const row = std::ranges::find_if(
      kActivationRows,
      [&](const ActivationRow& candidate) { return holder.starts_with(candidate.classes); });
  return row == std::end(kActivationRows) ? kNotKnown : row->use;
}

std::span<const InPlaceChildren> InPlaceModules() { return kInPlaceModules; }

bool IsActivationOfNorm(std::string_view child) { return child == kActivationsOfNorms[0].name; }

bool HasOwnHead(std::string_view path) {
  return std::ranges::any_of(kOwnHeads,
                             [&](const NameFact& row) { return path.ends_with(row.name); });
}

bool IsFloatBuffer(std::string_view name) {
  return std::ranges::find(kFloatBuffers, name, &NameFact::name) != std::end(kFloatBuffers);
}

bool IsIndexedOnce(std::string_view parameter) {
  return std::ranges::any_of(kIndexedOnce,
                             [&](const NameFact& row) { return parameter.ends_with(row.name); });
}

bool IsCached(std::string_view function) {
  return std::ranges::find(kCachedFunctions, function, &NameFact::name) !=
         std::end(kCachedFunctions);
}

std::span<const UnreadChild> UnreadChildren() { return kUnreadChildren; }
std::span<const UnreadParameter> UnreadParameters() { return kUnreadParameters; }
std::span<const PositionBuffer> PositionBuffers() { return kPositionBuffers; }
std::span<const UnreadTensorRow> UnreadTensorRows() { return kUnreadTensors; }
std::span<const UnreadMask> UnreadMasks() { return kUnreadMasks; }
std::string_view ChildWithTiedBias() { return kTiedBiases[0].name; }
bool IsRotaryEmbedding(std::string_view module) { return module == kRotaryEmbeddings[0].name; }
std::string_view NameOfEmbeddings() { return kEmbeddings[0].name; }
std::string_view CloneOfBuffer() { return kClones[0].name; }
std::span<const KnownNameRow> KnownNameRows() { return kKnownNameRows; }

bool BeginsHead(std::string_view child) {
  return std::ranges::find(kHeadChildren, child, &NameFact::name) != std::end(kHeadChildren);
}

std::span<const HelperLocal> HelperLocals() { return kHelperLocals; }

std::span<const HelperFrame> HelperFrames() { return kHelperFrames; }

bool ReplacesWhatItHolds(std::string_view line) {
  return std::ranges::any_of(kReplacing, [&](const NameFact& row) {
    return line.find(row.name) != std::string_view::npos;
  });
}

std::string_view CallThatReturnsWeights() { return kReturningWeights[0].name; }

std::string_view CallOfEagerAttention() { return kEagerAttentionCalls[0].name; }

namespace {

bool IsFrom(std::string_view file, const TracedStatement& row) {
  return file.find(row.file) != std::string_view::npos;
}

}  // namespace

bool BuildsMask(std::string_view file, std::string_view line) {
  const auto is = [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.find(row.text) != std::string_view::npos;
  };
  return std::ranges::any_of(kMaskBuilders, is) && std::ranges::none_of(kMasksAlwaysBuilt, is);
}

bool CastsToWeight(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kWeightCasts, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.ends_with(row.text);
  });
}

bool RunsOutsideAutocast(std::string_view file, std::string_view line) {
  return std::ranges::any_of(kOutsideAutocast, [&](const TracedStatement& row) {
    return IsFrom(file, row) && line.starts_with(row.text);
  });
}

}  // namespace onnxfit

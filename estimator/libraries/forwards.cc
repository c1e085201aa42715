// What forwards bind to names, by the children of their modules.
#include <iterator>
#include <span>
#include <vector>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

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

constexpr SeenIn kNormFree = {kTimm, "models/nfnet.py", "out = self.conv2(self.act2(out))"};
constexpr SeenIn kBit = {kTransformers, "models/bit/modeling_bit.py",
                         "hidden_states_preact = self.norm1(hidden_states)"};
constexpr SeenIn kCsp = {kTimm, "models/cspnet.py",
                         "xs, xb = x.split(self.expand_chs // 2, dim=1)"};
constexpr SeenIn kRes2Net = {kTimm, "models/res2net.py", "spx = torch.split(out, self.width, 1)"};
constexpr SeenIn kCvt = {kTransformers, "models/cvt/modeling_cvt.py", "attention_probs = "};
constexpr SeenIn kStar = {kTimm, "models/starnet.py", "x = self.dwconv2(self.g(x))"};
constexpr SeenIn kDinov2 = {kTransformers, "models/dinov2/modeling_dinov2.py",
                            "hidden_states_norm = self.norm1(hidden_states)"};

constexpr SeenIn kRotated = {kTransformers, "models/llama/modeling_llama.py",
                             "position_ids = position_ids.unsqueeze(0)"};
constexpr SeenIn kNeck = {kTransformers, "models/dpt/modeling_dpt.py",
                          "output = self.fusion_stage(features)"};
constexpr SeenIn kConformer = {kTransformers, "models/lasr/modeling_lasr.py",
                               "normalized_hidden_states = self.norm_self_att(hidden_states)"};

constexpr SeenIn kDistilled = {kTimm, "models/levit.py",
                               "x, x_dist = self.head(x), self.head_dist(x)"};
constexpr SeenIn kDense = {kTimm, "models/densenet.py",
                           "bottleneck_output = self.conv1(self.norm1(concated_features))"};
constexpr SeenIn kSelective = {kTimm, "layers/selective_kernel.py",
                               "x_paths = [op(x) for op in self.paths]"};
constexpr SeenIn kCspNext = {kTimm, "models/cspnext.py", "main = block(main)"};

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
    {{"embeddings", "!embeddings_project", "!pre_layrnorm", "!pre_layernorm"},
     "embeddings",
     "embedding_output",
     {},
     false,
     {kTransformers, "models/bert/modeling_bert.py", "embedding_output = self.embeddings("}},
    {{"embeddings", "encoder"},
     "encoder",
     "encoder_outputs",
     {},
     false,
     {kTransformers, "models/bert/modeling_bert.py", "encoder_outputs = self.encoder("}},
    {{"embeddings", "encoder", "!layernorm", "!rms_norm"},
     "encoder",
     "encoder_outputs",
     {},
     true,
     {kTransformers, "models/bert/modeling_bert.py", "encoder_outputs = self.encoder("}},
    // But AlbertModel, whose pooler is a layer.
    {{"embeddings", "encoder", "pooler", "!pooler_activation"},
     "pooler",
     "pooled_output",
     {},
     true,
     {kTransformers, "models/bert/modeling_bert.py", "pooled_output = self.pooler("}},
    {{"embeddings", "layernorm"},
     "layernorm",
     "sequence_output",
     {},
     true,
     {kTransformers, "models/vit/modeling_vit.py", "sequence_output = self.layernorm("}},
    // DistilBertForMaskedLM.
    {{"distilbert", "vocab_transform"},
     "distilbert",
     "dlbrt_output",
     {},
     false,
     {kTransformers, "models/distilbert/modeling_distilbert.py",
      "dlbrt_output = self.distilbert("}},
    // CLIPVisionEmbeddings.
    {{"patch_embedding", "position_embedding"},
     "patch_embedding",
     "patch_embeds",
     {},
     false,
     {kTransformers, "models/clip/modeling_clip.py", "patch_embeds = self.patch_embedding("}},
    // BlenderbotEncoderLayer and those like it: "self.activation_fn(self.fc1(hidden_states))".
    {{"fc1", "fc2", "final_layer_norm"},
     "final_layer_norm",
     "hidden_states",
     {"activation_fn", "gelu"},
     false,
     {kTransformers, "models/blenderbot/modeling_blenderbot.py",
      "hidden_states = self.activation_fn(self.fc1(hidden_states))"}},
    // BloomAttention, whose "attn_weights" are these and the mask.
    {{"query_key_value", "dense"},
     "baddbmm",
     "attention_scores",
     {},
     false,
     {kTransformers, "models/bloom/modeling_bloom.py", "attention_scores = alibi.baddbmm("}},
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
    // A block's shortcut: "identity", in torchvision.
    {{"conv1", "downsample"},
     "downsample",
     "shortcut",
     {},
     false,
     {kTimm, "models/res2net.py", "shortcut = self.downsample(x)"}},
    // NormFreeBlock: "out = self.conv2(self.act2(out))".
    {{"act3", "!conv4", "!bn1"}, "conv1", "out", {"conv2"}, false, kNormFree},
    {{"act3", "!conv4", "!bn1"}, "conv2", "out", {"conv3", "conv2b"}, false, kNormFree},
    {{"act3", "!conv4", "!bn1", "!attn_last"}, "conv3", "out", {"add"}, false, kNormFree},
    {{"act3", "attn_last", "!bn1"}, "conv3", "out", {"mul.Scalar"}, false, kNormFree},
    // BitPreActivationBottleneckLayer.
    {{"norm1", "norm3", "conv3", "!act3"}, "conv1", "hidden_states", {"conv2"}, false, kBit},
    {{"norm1", "norm3", "conv3", "!act3"}, "conv2", "hidden_states", {"conv3"}, false, kBit},
    {{"norm1", "norm3", "conv3", "!act3"}, "norm1", "hidden_states_preact", {}, false, kBit},
    // CrossStage of timm's CspNet.
    {{"conv_exp", "blocks", "conv_transition"}, "conv_exp", "x", {}, false, kCsp},
    {{"conv_exp", "blocks", "conv_transition"}, "split", "xs, xb", {}, false, kCsp},
    {{"conv_exp", "blocks", "conv_transition"}, "blocks", "xb", {"conv_transition_b"}, false, kCsp},
    {{"conv_exp", "blocks", "conv_transition"}, "conv_transition_b", "xb", {}, false, kCsp},
    // GatedConvBlock of MambaOut: "x = self.fc2(…)" of parts of x.
    {{"fc1", "conv", "fc2"},
     "fc1",
     "x",
     {"fc2"},
     false,
     {kTimm, "models/mambaout.py", "g, i, c = torch.split(x, self.split_indices, dim=-1)"}},
    {{"fc1", "conv", "fc2"},
     "split",
     "g, i, c",
     {},
     false,
     {kTimm, "models/mambaout.py", "g, i, c = torch.split(x, self.split_indices, dim=-1)"}},
    // "c = self.conv(c)" of parts.
    {{"fc1", "conv", "fc2", "!rsoftmax"},
     "conv",
     "c",
     {},
     false,
     {kTimm, "models/mambaout.py", "c = self.conv(c)"}},
    // DenseLayer, "self.conv1(self.norm1(concated_features))" of a method.
    {{"norm1", "conv1", "conv2", ">cat"}, "cat", "concated_features", {"conv1"}, false, kDense},
    {{"norm1", "conv1", "conv2", ">cat"}, "conv1", "bottleneck_output", {}, false, kDense},
    // GhostModule, RepGhostModule.
    {{"primary_conv", "cheap_operation"},
     "primary_conv",
     "x1",
     {},
     false,
     {kTimm, "models/repghost.py", "x1 = self.primary_conv(x)"}},
    // LocallyGroupedAttn of Twins: "x = F.pad(x, …)", of which windows are views.
    {{"qkv", "proj"},
     "pad",
     "x",
     {"scaled_dot_product_attention"},
     false,
     {kTimm, "models/twins.py", "x = F.pad(x, (0, 0, pad_l, pad_r, pad_t, pad_b))"}},
    // Distilled classifiers.
    {{"head", "head_dist"}, "head", "x", {}, false, kDistilled},
    {{"head", "head_dist"}, "head_dist", "x_dist", {}, false, kDistilled},
    {{"head", "head_dist"},
     "stages.*",
     "x",
     {"stages.*"},
     false,
     {kTimm, "models/levit.py", "x = self.forward_head(x)"}},
    {{"head", "head_dist", "!norm"},
     "stages",
     "x",
     {},
     false,
     {kTimm, "models/levit.py", "x = self.forward_head(x)"}},
    {{"head", "head_dist", "norm"},
     "norm",
     "x",
     {},
     false,
     {kTimm, "models/swiftformer.py", "x = self.forward_head(x)"}},
    // SplitAttn.
    {{"fc1", "fc2", "rsoftmax"},
     "act1",
     "x_gap",
     {},
     false,
     {kTimm, "layers/split_attn.py", "x_gap = self.act1(x_gap)"}},
    // SelectiveKernel: "x_paths = [op(x) for op in self.paths]".
    {{"paths.0", "paths.1", "attn"}, "paths.0", "x_paths", {}, false, kSelective},
    {{"paths.0", "paths.1", "attn"}, "paths.1", "x_paths", {}, false, kSelective},
    // CspNextLayer.
    {{"short_conv", "main_conv", "final_conv"}, "blocks.*", "main", {"blocks.*"}, false, kCspNext},
    {{"short_conv", "main_conv", "final_conv"}, "short_conv", "short", {}, false, kCspNext},
    // XCiT's positions, "x = x + pos_encoding".
    {{"patch_embed", "pos_embed", "cls_attn_blocks.0"},
     "pos_embed",
     "pos_encoding",
     {"norm"},
     false,
     {kTimm, "models/xcit.py", "pos_encoding = self.pos_embed(B, Hp, Wp)"}},
    // What is taken apart: "qkv = self.qkv(x).reshape(…)", "q, k, v = qkv.unbind(0)".
    {{"qkv", "!project"},
     "qkv",
     "qkv",
     {},
     false,
     {kTimm, "layers/attention.py", "qkv = self.qkv(x).reshape("}},
    // torchvision's MViT, whose pools bind all three anew.
    {{"qkv", "project", "pool_q"},
     "unbind",
     "q, k, v",
     {"pool_q"},
     false,
     {kTorchvision, "models/video/mvit.py", "q, thw = self.pool_q(q, thw)"}},
    // torchvision's segmentation: the features that its backbone returns.
    {{"backbone", "classifier"},
     "backbone",
     "features",
     {},
     false,
     {kTorchvision, "models/segmentation/_utils.py", "features = self.backbone(x)"}},
    // ShuffleNetV2.
    {{"maxpool", "stage4", "conv5", "fc"},
     "conv5",
     "x",
     {"mean"},
     false,
     {kTorchvision, "models/shufflenetv2.py", "x = x.mean([2, 3])"}},
    // XCLIPVisionEncoderLayer, whose other views are its children's.
    {{"message_fc", "message_ln", "message_attn"},
     "view",
     "msg_token",
     {"view"},
     false,
     {kTransformers, "models/x_clip/modeling_x_clip.py",
      "msg_token = msg_token.view(-1, 1, hidden_size)"}},
    // Bottle2neck of Res2Net.
    {{"conv1", "conv3", "!conv2"}, "relu", "out", {"cat"}, false, kRes2Net},
    {{"conv1", "conv3", "!conv2"}, "split", "spx", {}, false, kRes2Net},
    {{"conv1", "conv3", "!conv2"}, "bns.*", "spo", {}, false, kRes2Net},
    {{"conv1", "conv3", "!conv2"}, "pool", "spo", {}, false, kRes2Net},
    // SelecSlsBlock.
    {{"conv4", "conv5", "conv6"},
     "conv5",
     "d3",
     {},
     false,
     {kTimm, "models/selecsls.py", "d3 = self.conv5(self.conv4(d2))"}},
    // CvtSelfAttention: "key = self.rearrange_for_multi_head_attention(self.projection_key(key))".
    {{"convolution_projection_key", "projection_key"},
     "convolution_projection_key",
     "key",
     {"projection_key"},
     false,
     kCvt},
    {{"convolution_projection_query", "projection_query"},
     "convolution_projection_query",
     "query",
     {"projection_query"},
     false,
     kCvt},
    {{"convolution_projection_value", "projection_value"},
     "convolution_projection_value",
     "value",
     {"projection_value"},
     false,
     kCvt},
    {{"projection_query", "projection_key", "projection_value"},
     "mul.Scalar",
     "attention_score",
     {},
     false,
     kCvt},
    {{"projection_query", "projection_key", "projection_value"},
     "softmax",
     "attention_probs",
     {},
     false,
     kCvt},
    // SplitAttn: "(x * x_attn…).sum(dim=1)" of x by radixes.
    {{"fc1", "fc2", "rsoftmax"},
     "view",
     "x",
     {},
     false,
     {kTimm, "layers/split_attn.py", "x = x.reshape((B, self.radix, RC // self.radix, H, W))"}},
    // StarNet's Block.
    {{"f1", "f2", "dwconv2"}, "mul", "x", {"dwconv2"}, false, kStar},
    {{"f1", "f2", "dwconv2"}, "dwconv", "x", {"mul"}, false, kStar},
    // DonutSwinLayer: "layer_output = hidden_states + self.output(layer_output)".
    {{"layernorm_before", "intermediate", "output"},
     "intermediate",
     "layer_output",
     {"add"},
     false,
     {kTransformers, "models/donut/modeling_donut_swin.py",
      "layer_output = hidden_states + self.output(layer_output)"}},
    // FlavaLayer, DPTLayer and those like them: "hidden_states = attention_output + hidden_states".
    {{"layernorm_before", "attention", "intermediate"},
     "attention",
     "attention_output",
     {},
     false,
     {kTransformers, "models/flava/modeling_flava.py",
      "hidden_states = attention_output + hidden_states"}},
    // LasrEncoderBlock, ParakeetEncoderBlock.
    {{"norm_self_att", "self_attn", "norm_out"},
     "norm_self_att",
     "normalized_hidden_states",
     {},
     false,
     kConformer},
    {{"norm_self_att", "self_attn", "norm_out"}, "self_attn", "attn_output", {}, false, kConformer},
    {{"norm_self_att", "self_attn", "norm_out"}, "conv", "conv_output", {}, false, kConformer},
    {{"norm_feed_forward2", "self_attn", "norm_out"},
     "<norm_feed_forward2",
     "residual",
     {},
     false,
     kConformer},
    // Dinov2Layer.
    {{"norm1", "layer_scale1", "attention"}, "norm1", "hidden_states_norm", {}, false, kDinov2},
    {{"norm1", "layer_scale1", "attention"},
     "layer_scale1",
     "self_attention_output",
     {},
     false,
     kDinov2},
    // GlmAsrEncoder, and what is built like Whisper's encoder.
    {{"conv1", "conv2", "layers.0"},
     "gelu",
     "inputs_embeds",
     {"gelu"},
     false,
     {kTransformers, "models/glmasr/modeling_glmasr.py",
      "inputs_embeds = nn.functional.gelu(self.conv2(inputs_embeds))"}},
    // LlamaModel and its kin, FalconModel, DiaEncoder.
    {{"rotary_emb", "embed_tokens"}, "constant", "position_ids", {}, false, kRotated},
    {{"rotary_emb", "word_embeddings"}, "constant", "position_ids", {}, false, kRotated},
    {{"rotary_emb", "embedding"}, "constant", "position_ids", {}, false, kRotated},
    // DPTNeck and its kin's; what its last stage returns, the model holds.
    {{"reassemble_stage", "fusion_stage"}, "reassemble_stage", "hidden_states", {}, false, kNeck},
    {{"reassemble_stage", "fusion_stage"}, "convs.*", "features", {}, false, kNeck},
    {{"reassemble_stage", "fusion_stage"}, "+fusion_stage", "output", {}, true, kNeck},
    // BrosBboxEmbeddings, BrosModel.
    {{"bbox_sinusoid_emb", "bbox_projection"},
     "<bbox_sinusoid_emb",
     "bbox_pos",
     {},
     false,
     {kTransformers, "models/bros/modeling_bros.py",
      "bbox_pos_emb = self.bbox_sinusoid_emb(bbox_pos)"}},
    {{"bbox_embeddings", "encoder"},
     "mul.Scalar",
     "scaled_bbox",
     {},
     false,
     {kTransformers, "models/bros/modeling_bros.py",
      "scaled_bbox = bbox * self.config.bbox_scale"}},
    // T5ForConditionalGeneration, BartModel.
    // But VibeVoiceAcousticTokenizerModel, which replaces what its encoder's head has made.
    {{"encoder", "decoder", "!encoder/head"},
     "encoder",
     "encoder_outputs",
     {},
     true,
     kEncoderDecoder},
    {{"encoder", "decoder"}, "decoder", "decoder_outputs", {}, true, kEncoderDecoder},
};

// "attention_scores = …", "attention_probs = softmax(attention_scores)", "return context_layer,
// attention_probs"; "scores", "weights".
constexpr NamedScores kNamedScores[] = {
    {{"query", "key", "value"},
     0,
     "",
     {kTransformers, "models/flava/modeling_flava.py",
      "outputs = (context_layer, attention_probs) if output_attentions else (context_layer,)"}},
    {{"query_proj", "key_proj", "value_proj"},
     0,
     "",
     {kTransformers, "models/deberta_v2/modeling_deberta_v2.py", "return (context_layer, None)"}},
    {{"qkv", "projection"},
     1,
     "",
     {kTransformers, "models/blip/modeling_blip.py", "return output, attention_probs"}},
    {{"query_key_value", "dense"},
     2,
     "*",
     {kTransformers, "models/bloom/modeling_bloom.py", "return output_tensor, attention_probs"}},
    {{"q_lin", "k_lin", "v_lin"},  // DistilBERT's are called so, too, in "layer.0.attention"
     0,
     "*attentions.*",
     {kTransformers, "models/flaubert/modeling_flaubert.py", "weights = nn.functional.softmax("}},
    // MultiHeadedAttention of The Annotated Transformer and its many copies.
    {{"linears.0", "linears.3"},
     0,
     "",
     {kAnnotated, "the_annotated_transformer.py", "x, self.attn = attention("},
     "self.attn"},
    {{"to_qkv", "to_out"},
     0,
     "",
     {kVitPytorch, "vit_pytorch/vit.py", "dots = torch.matmul(q, k.transpose(-1, -2))"}},
    {{"to_q", "to_kv", "to_out"},
     0,
     "",
     {kPerceiverPytorch, "perceiver_pytorch/perceiver_pytorch.py", "sim = einsum("}},
};

}  // namespace

std::span<const KnownNameRow> KnownNameRows() {
  static const std::vector<KnownNameRow> rows = [] {
    std::vector<KnownNameRow> all(std::begin(kKnownNameRows), std::end(kKnownNameRows));
    for (const std::span<const KnownNameRow> more :
         {NameRowsOfStages(), NameRowsOfLayers(), NameRowsOfModels()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return rows;
}

std::span<const NamedScores> NamedScoresOfAttention() { return kNamedScores; }

}  // namespace onnxfit

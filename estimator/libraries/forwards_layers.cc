// What layers and attention of transformers' models bind to names: more rows of forwards.cc.
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr SeenIn kFused = {kTransformers, "models/falcon/modeling_falcon.py",
                           "fused_qkv = self.query_key_value(hidden_states)"};
constexpr SeenIn kBloom = {kTransformers, "models/bloom/modeling_bloom.py",
                           "layernorm_output = self.post_attention_layernorm(attention_output)"};
constexpr SeenIn kAimv2 = {kTransformers, "models/aimv2/modeling_aimv2.py",
                           "norm_hidden_states = self.rms_norm1(hidden_states)"};
constexpr SeenIn kBackbone = {kTransformers, "models/depth_anything/modeling_depth_anything.py",
                              "outputs = self.backbone.forward_with_filtered_kwargs("};
constexpr SeenIn kDeberta = {kTransformers, "models/deberta_v2/modeling_deberta_v2.py",
                             "output_hidden_states=True,"};
constexpr SeenIn kW2v = {kTransformers, "models/wav2vec2_bert/modeling_wav2vec2_bert.py",
                         "distance = position_ids_r - position_ids_l"};
constexpr SeenIn kPatches = {kTransformers, "models/patchtsmixer/modeling_patchtsmixer.py",
                             "scaled_past_values, loc, scale = self.scaler(past_values"};
constexpr SeenIn kSwin = {kTransformers, "models/donut/modeling_donut_swin.py",
                          "hidden_states_windows = window_partition(shifted_hidden_states"};

constexpr SeenIn kRelativeRows = {kRelativePosition, "relative_position.py",
                                  "weight1 = torch.matmul(attn, r_v1)"};

constexpr KnownNameRow kRowsOfLayers[] = {
    // FalconAttention, BloomAttention: "context_layer = self._merge_heads(context_layer)".
    {{"query_key_value", "dense"}, "query_key_value", "fused_qkv", {}, false, kFused},
    {{"query_key_value", "dense"}, "<dense", "context_layer", {}, false, kBloom},
    // BloomModel, BloomBlock, BloomMLP.
    {{"word_embeddings", "ln_f"}, "<cumsum", "attention_mask", {}, false, kBloom},
    // DonutSwinLayer and its copies.
    {{"layernorm_before", "attention/self", "layernorm_after"},
     "<pad>permute",
     "shifted_hidden_states",
     {},
     false,
     kSwin},
    {{"layernorm_before", "attention/self", "layernorm_after"},
     "pad>permute>view",
     "hidden_states_windows",
     {},
     false,
     kSwin},
    {{"layernorm_before", "attention/self", "layernorm_after"},
     "masked_fill>masked_fill",
     "attn_mask",
     {},
     false,
     kSwin},
    {{"layernorm_before", "attention/self", "layernorm_after"},
     "attention>permute>view",
     "shifted_windows",
     {},
     false,
     kSwin},
    {{"layernorm_before", "attention/self", "layernorm_after"},
     "attention>roll",
     "attention_windows",
     {},
     false,
     kSwin},
    {{"query", "key", "value"},
     "embedding>permute>view",
     "relative_position_bias",
     {},
     false,
     {kTransformers, "models/donut/modeling_donut_swin.py",
      "relative_position_bias = relative_position_bias.permute(2, 0, 1).contiguous()"}},
    // DPTLayer, YolosLayer.
    {{"layernorm_before", "attention", "intermediate", "!attention/self"},
     "layernorm_before",
     "hidden_states_norm",
     {},
     false,
     {kTransformers, "models/dpt/modeling_dpt.py",
      "hidden_states_norm = self.layernorm_before(hidden_states)"}},
    {{"backbone", "head"}, "backbone", "outputs", {}, false, kBackbone},
    // DisentangledSelfAttention, DebertaV2Model.
    {{"query_proj", "key_proj", "value_proj"},
     "<logical_not",
     "attention_mask",
     {},
     false,
     kDeberta},
    {{"embeddings", "encoder/layer.0/attention/self/query_proj"},
     "constant",
     "token_type_ids",
     {},
     false,
     kDeberta},
    // Eager attention returns its weights: CLIPEncoderLayer, BartEncoderLayer, BartDecoderLayer.
    {{"layer_norm1", "self_attn", "layer_norm2", "mlp"},
     "self_attn/softmax",
     "_",
     {},
     false,
     {kTransformers, "models/clip/modeling_clip.py", "hidden_states, _ = self.self_attn("}},
    {{"linear_q", "distance_embedding"}, "constant", "position_ids_l", {"mul.Scalar"}, false, kW2v},
    {{"linear_q", "distance_embedding"}, "hardtanh", "distance", {"mul.Scalar"}, false, kW2v},
    // BigBirdSelfAttention, whose layer holds what it returns.
    {{"query", "key", "value", "output"},
     "softmax",
     "attention_probs",
     {},
     true,
     {kTransformers, "models/big_bird/modeling_big_bird.py",
      "return context_layer, attention_probs"}},
    // PerceiverModel, PerceiverTextPreprocessor.
    {{"input_preprocessor", "embeddings", "encoder", "decoder"},
     "where",
     "attention_mask",
     {},
     false,
     {kTransformers, "models/perceiver/modeling_perceiver.py",
      "attention_mask = create_bidirectional_mask("}},
    {{"embeddings", "position_embeddings", "!layer_norm_emb"},
     "embeddings",
     "embeddings_without_pos",
     {},
     true,
     {kTransformers, "models/perceiver/modeling_perceiver.py",
      "return embeddings, None, embeddings_without_pos"}},
    // PatchTSMixerModel.
    {{"scaler", "patching", "encoder"}, "scaler", "scaled_past_values", {}, false, kPatches},
    // Aimv2EncoderLayer, Aimv2VisionModel.
    {{"embeddings", "encoder", "rms_norm"}, "rms_norm", "last_hidden_state", {}, true, kAimv2},
    // MultiHeadAttentionLayer with the relative positions of Shaw et al., and its many copies.
    {{"fc_q", "fc_k", "fc_v", "fc_o"},
     "fc_v>matmul>permute>view",
     "r_q2",
     {},
     false,
     kRelativeRows},
    // kp_module, an hourglass, which resizes it.
    {{"up1", "low1", "low2", "low3"},
     "low3",
     "low3",
     {},
     false,
     {kCornerNet, "models/py_utils/kp.py", "low3 = self.low3(low2)"}},
};

}  // namespace

std::span<const KnownNameRow> NameRowsOfLayers() { return kRowsOfLayers; }

}  // namespace onnxfit

#include <algorithm>
#include <iterator>

#include "estimator/program/libraries.h"
#include "estimator/program/library_rows.h"

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
    // Bottle2neck of Res2Net.
    {{"conv1", "conv3", "!conv2"}, "relu", "out", {"cat"}, false, kRes2Net},
    {{"conv1", "conv3", "!conv2"}, "split", "spx", {}, false, kRes2Net},
    // SelecSlsBlock.
    {{"conv4", "conv5", "conv6"},
     "conv5",
     "d3",
     {},
     false,
     {kTimm, "models/selecsls.py", "d3 = self.conv5(self.conv4(d2))"}},
    // CvtSelfAttention.
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
    // Dinov2Layer.
    {{"norm1", "layer_scale1", "attention"}, "norm1", "hidden_states_norm", {}, false, kDinov2},
    {{"norm1", "layer_scale1", "attention"},
     "layer_scale1",
     "self_attention_output",
     {},
     false,
     kDinov2},
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

// Else "attn_weights_reshaped = None" is returned.
constexpr NameFact kKeepingWeights[] = {
    {"torch.bmm(attn_probs",
     {kTransformers, "models/trocr/modeling_trocr.py",
      "attn_output = torch.bmm(attn_probs, value_states)"}},
};

// "mask_kwargs = {..., "inputs_embeds": hidden_states, ...}".
constexpr NameFact kPassingEmbeddings[] = {
    {"(**mask_kwargs)",
     {kTransformers, "models/modernbert_decoder/modeling_modernbert_decoder.py",
      "create_causal_mask(**mask_kwargs)"}},
};

constexpr StoredNames kStoredNames = {
    "models/gemma",
    "value_states = self.v_norm(value_states)",
    {"key_states", "value_states"},
    "shared_kv_states",
    {kTransformers, "models/gemma4/modeling_gemma4.py",
     "shared_kv_states[self.layer_type] = key_states, value_states"}};

constexpr NameFact kEagerAttentionCalls[] = {
    {"attention_interface(",
     {kTransformers, "models/bert/modeling_bert.py", "= attention_interface("}},
};

constexpr CollectedLine kCollectedLines[] = {
    // Of FeatureDictNet, by the layers that it is asked for: mostly all stages.
    {"return list(self._collect(x).values())",
     "layer",
     {kTimm, "models/_features.py", "return list(self._collect(x).values())"}},
    // DETR's masks of feature maps, and its positions, and those of its kin.
    {"size=feature_map.shape[-2:]).to(torch.bool)[0]",
     "",
     {kTransformers, "models/conditional_detr/modeling_conditional_detr.py",
      "out.append((feature_map, mask))"}},
    {"pos.append(self.position_embedding(feature_map, mask)",
     "",
     {kTransformers, "models/table_transformer/modeling_table_transformer.py",
      "pos.append(self.position_embedding(feature_map, mask)"}},
    // DPT's fusion stage and its copies.
    {"fused_hidden_state = layer(",
     "",
     {kTransformers, "models/dpt/modeling_dpt.py", "fused_hidden_states.append("}},
    // Which DebertaV2Model asks for its hidden states.
    {"output_states, attn_weights = layer_module(",
     "",
     {kTransformers, "models/deberta_v2/modeling_deberta_v2.py", "output_hidden_states=True"}},
};

constexpr NameFact kPassingOn[] = {
    {"size=feature_map.shape[-2:]).to(torch.bool)[0]",
     {kTransformers, "models/conditional_detr/modeling_conditional_detr.py",
      "out.append((feature_map, mask))"}},
    {"pos.append(self.position_embedding(feature_map, mask)",
     {kTransformers, "models/table_transformer/modeling_table_transformer.py", "return out, pos"}},
};

// Zeros in place of relative biases, which blocks pass on to each other: with them reentrant
// checkpoints have an argument that asks for gradients.
constexpr NameFact kAskingUnderCheckpoints[] = {
    {"position_bias = torch.zeros(",
     {kTransformers, "models/t5/modeling_t5.py",
      "if self.gradient_checkpointing and self.training:"}},
};

// To decoder layers and blocks that take their positions from elsewhere, too, rotated by the model.
constexpr NameFact kPassedToLayers[] = {
    {"position_ids = position_ids.unsqueeze(0)",
     {kTransformers, "models/llama/modeling_llama.py", "position_ids=position_ids,"}},
};

bool MentionsAny(std::span<const NameFact> rows, std::string_view line) {
  return std::ranges::any_of(
      rows, [&](const NameFact& row) { return line.find(row.name) != std::string_view::npos; });
}

}  // namespace

std::span<const KnownNameRow> KnownNameRows() { return kKnownNameRows; }

bool BeginsHead(std::string_view child) {
  return std::ranges::find(kHeadChildren, child, &NameFact::name) != std::end(kHeadChildren);
}

std::span<const HelperLocal> HelperLocals() { return kHelperLocals; }

std::span<const CollectedLine> CollectedLines() { return kCollectedLines; }

bool PassesListOn(std::string_view line) { return MentionsAny(kPassingOn, line); }

bool AsksUnderCheckpoints(std::string_view line) {
  return MentionsAny(kAskingUnderCheckpoints, line);
}

bool IsPassedToLayers(std::string_view line) { return MentionsAny(kPassedToLayers, line); }

bool ReplacesWhatItHolds(std::string_view line) { return MentionsAny(kReplacing, line); }

bool KeepsWeightsUnlessAsked(std::string_view line) { return MentionsAny(kKeepingWeights, line); }

const StoredNames& NamesStoredByKind() { return kStoredNames; }

bool PassesEmbeddings(std::string_view line) { return MentionsAny(kPassingEmbeddings, line); }

std::string_view CallThatReturnsWeights() { return kReturningWeights[0].name; }

std::string_view CallOfEagerAttention() { return kEagerAttentionCalls[0].name; }

}  // namespace onnxfit

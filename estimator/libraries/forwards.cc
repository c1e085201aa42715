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
constexpr SeenIn kT5Layers = {kTransformers, "models/t5/modeling_t5.py",
                              "normed_hidden_states = self.layer_norm(hidden_states)"};
constexpr SeenIn kT5Gated = {kTransformers, "models/t5/modeling_t5.py",
                             "hidden_linear = self.wi_1(hidden_states)"};
constexpr SeenIn kEncoderDecoder = {kTransformers, "models/t5/modeling_t5.py",
                                    "decoder_outputs = self.decoder("};

constexpr SeenIn kNormFree = {kTimm, "models/nfnet.py", "out = self.conv2(self.act2(out))"};
constexpr SeenIn kCsp = {kTimm, "models/cspnet.py",
                         "xs, xb = x.split(self.expand_chs // 2, dim=1)"};
constexpr SeenIn kRes2Net = {kTimm, "models/res2net.py", "spx = torch.split(out, self.width, 1)"};
constexpr SeenIn kDinov2 = {kTransformers, "models/dinov2/modeling_dinov2.py",
                            "hidden_states_norm = self.norm1(hidden_states)"};

constexpr SeenIn kRotated = {kTransformers, "models/llama/modeling_llama.py",
                             "position_ids = position_ids.unsqueeze(0)"};
constexpr SeenIn kNeck = {kTransformers, "models/dpt/modeling_dpt.py",
                          "output = self.fusion_stage(features)"};

constexpr SeenIn kDense = {kTimm, "models/densenet.py",
                           "bottleneck_output = self.conv1(self.norm1(concated_features))"};
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
    // NormFreeBlock: "out = self.conv2(self.act2(out))".
    {{"act3", "!conv4", "!bn1"}, "conv1", "out", {"conv2"}, false, kNormFree},
    {{"act3", "!conv4", "!bn1", "!attn_last"}, "conv3", "out", {"add"}, false, kNormFree},
    {{"act3", "attn_last", "!bn1"}, "conv3", "out", {"mul.Scalar"}, false, kNormFree},
    // CrossStage of timm's CspNet.
    {{"conv_exp", "blocks", "conv_transition"}, "blocks", "xb", {"conv_transition_b"}, false, kCsp},
    // DenseLayer, "self.conv1(self.norm1(concated_features))" of a method.
    {{"norm1", "conv1", "conv2", ">cat"}, "cat", "concated_features", {"conv1"}, false, kDense},
    {{"norm1", "conv1", "conv2", ">cat"}, "conv1", "bottleneck_output", {}, false, kDense},
    // LocallyGroupedAttn of Twins: "x = F.pad(x, …)", of which windows are views.
    {{"qkv", "proj"},
     "pad",
     "x",
     {"scaled_dot_product_attention"},
     false,
     {kTimm, "models/twins.py", "x = F.pad(x, (0, 0, pad_l, pad_r, pad_t, pad_b))"}},
    // CspNextLayer.
    {{"short_conv", "main_conv", "final_conv"}, "blocks.*", "main", {"blocks.*"}, false, kCspNext},
    // What is taken apart: "qkv = self.qkv(x).reshape(…)", "q, k, v = qkv.unbind(0)".
    {{"qkv", "!project"},
     "qkv",
     "qkv",
     {},
     false,
     {kTimm, "layers/attention.py", "qkv = self.qkv(x).reshape("}},
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
    {{"conv1", "conv3", "!conv2"}, "pool", "spo", {}, false, kRes2Net},
    // FlavaLayer, DPTLayer and those like them: "hidden_states = attention_output + hidden_states".
    {{"layernorm_before", "attention", "intermediate"},
     "attention",
     "attention_output",
     {},
     false,
     {kTransformers, "models/flava/modeling_flava.py",
      "hidden_states = attention_output + hidden_states"}},
    // Dinov2Layer.
    {{"norm1", "layer_scale1", "attention"}, "norm1", "hidden_states_norm", {}, false, kDinov2},
    {{"norm1", "layer_scale1", "attention"},
     "layer_scale1",
     "self_attention_output",
     {},
     false,
     kDinov2},
    // LlamaModel and its kin, FalconModel, DiaEncoder.
    {{"rotary_emb", "embed_tokens"}, "constant", "position_ids", {}, false, kRotated},
    {{"rotary_emb", "word_embeddings"}, "constant", "position_ids", {}, false, kRotated},
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

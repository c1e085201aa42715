#include <algorithm>
#include <iterator>

#include "estimator/base/module_names.h"
#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

// SelectAdaptivePool2d, and vgg.py's ConvMlp, in "x = self.forward_head(x)".
constexpr NameFact kHeadChildren[] = {
    {"global_pool", {kTimm, "models/resnet.py", "x = self.forward_head(x)"}},
    {"in_conv", {kTimm, "models/lowformer.py", "x = self.forward_head(x)"}},
    {"pre_logits", {kTimm, "models/vgg.py", "x = self.forward_head(x)"}},
};

constexpr SeenIn kDisentangled = {kTransformers, "models/deberta_v2/modeling_deberta_v2.py",
                                  "def disentangled_attention_bias("};
constexpr SeenIn kComputeBias = {kTransformers, "models/t5/modeling_t5.py", "def compute_bias("};
constexpr SeenIn kMultiHead = {kTorch, "nn/functional.py", "def multi_head_attention_forward("};

constexpr HelperLocal kHelperLocals[] = {
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

// Which return them if they are asked to, and call so, too.
constexpr NameFact kReturningIfAsked[] = {
    {"models/prophetnet/",
     {kTransformers, "models/prophetnet/modeling_prophetnet.py",
      "outputs += (self_attn_weights, self_attn_weights_ngram, cross_attn_weights)"}},
    {"models/perceiver/",
     {kTransformers, "models/perceiver/modeling_perceiver.py",
      "outputs = (context_layer, attention_probs) if output_attentions else (context_layer,)"}},
    {"models/tapas/",
     {kTransformers, "models/tapas/modeling_tapas.py",
      "outputs = (context_layer, attention_probs) if output_attentions else (context_layer,)"}},
};

// A line, and a name that goes with it.
struct NameOfLine {
  std::string_view line;
  std::string_view name;
  SeenIn seen;
};

// Its last name is bound to that local of the forward that it calls.
constexpr NameOfLine kReturnedLocals[] = {
    {"queries, keys, _ = layer(",
     "attn_out",
     {kTransformers, "models/sam/modeling_sam.py", "return queries, keys, attn_out"}},
};

// The line behind it binds that name anew.
constexpr NameOfLine kFirstResults[] = {
    {"attn_outputs = self.attn(",
     "hidden_states",
     {kTransformers, "models/modernbert_decoder/modeling_modernbert_decoder.py",
      "hidden_states = attn_outputs[0]"}},
};

// Else "attn_weights_reshaped = None" is returned.
constexpr NameFact kKeepingWeights[] = {
    {"torch.bmm(attn_probs",
     {kTransformers, "models/trocr/modeling_trocr.py",
      "attn_output = torch.bmm(attn_probs, value_states)"}},
    {"torch.einsum(\"bsij,bsjk->bsik\", attn_probs",
     {kTransformers, "models/prophetnet/modeling_prophetnet.py",
      "attn_output = torch.einsum(\"bsij,bsjk->bsik\", attn_probs, value_states)"}},
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

constexpr NameFact kCastingToValues[] = {
    {"models/gpt2/",
     {kTransformers, "models/gpt2/modeling_gpt2.py",
      "attn_weights = attn_weights.type(value.dtype)"}},
    {"models/imagegpt/",
     {kTransformers, "models/imagegpt/modeling_imagegpt.py",
      "attn_weights = attn_weights.type(value.dtype)"}},
    {"models/decision_transformer/",
     {kTransformers, "models/decision_transformer/modeling_decision_transformer.py",
      "attn_weights = attn_weights.type(value.dtype)"}},
};

// Where a forward asks for hidden_states, the hooks of capture_outputs keep those of every layer.
constexpr NameFact kCollectingFiles[] = {
    {"transformers/models/", {kTransformers, "utils/output_capturing.py", "def capture_outputs("}},
};
constexpr NameFact kCollectedLists[] = {
    {"layer", {kTransformers, "models/dinov2/modeling_dinov2.py", "self.layer = nn.ModuleList("}},
    {"layers", {kTransformers, "models/clip/modeling_clip.py", "self.layers = nn.ModuleList("}},
};
constexpr NameFact kReturnedFields[] = {
    {"last_hidden_state",
     {kTransformers, "models/aimv2/modeling_aimv2.py", "last_hidden_state=last_hidden_state,"}},
    {"sequence_output",
     {kTransformers, "models/flava/modeling_flava.py", "last_hidden_state=sequence_output,"}},
    {"pooled_output",
     {kTransformers, "models/clip/modeling_clip.py", "pooler_output=pooled_output,"}},
    {"spatial_hidden_states",
     {kTransformers, "models/videoprism/modeling_videoprism.py",
      "last_spatial_hidden_state=spatial_hidden_states,"}},
    {"temporal_hidden_states",
     {kTransformers, "models/videoprism/modeling_videoprism.py",
      "last_temporal_hidden_state=temporal_hidden_states,"}},
};
constexpr NameFact kReturnedLines[] = {
    {"image_embeds = image_embeds / ",
     {kTransformers, "models/clip/modeling_clip.py", "image_embeds=image_embeds,"}},
    {"text_embeds = text_embeds / ",
     {kTransformers, "models/clip/modeling_clip.py", "text_embeds=text_embeds,"}},
    {"objectness_logits = self.objectness_predictor(",
     {kTransformers, "models/owlv2/modeling_owlv2.py", "objectness_logits=objectness_logits,"}},
    {"embeddings_without_pos = self.embeddings(",
     {kTransformers, "models/perceiver/modeling_perceiver.py",
      "return embeddings, None, embeddings_without_pos"}},
};
constexpr NameFact kReturnedWhole[] = {
    {"text_outputs: BaseModelOutputWithPooling = ",
     {kTransformers, "models/clip/modeling_clip.py", "text_model_output=text_outputs,"}},
    {"vision_outputs: BaseModelOutputWithPooling = ",
     {kTransformers, "models/clip/modeling_clip.py", "vision_model_output=vision_outputs,"}},
    {"outputs = self.image_text_embedder(",
     {kTransformers, "models/owlvit/modeling_owlvit.py",
      "text_outputs = outputs.text_model_output"}},
};
constexpr NameFact kCallingForFeatures[] = {
    {".get_image_features(",
     {kTransformers, "models/blip_2/modeling_blip_2.py", "vision_outputs=vision_outputs,"}},
};

constexpr NameFact kCallingBackbones[] = {
    {".forward_with_filtered_kwargs(",
     {kTransformers, "models/zoedepth/modeling_zoedepth.py",
      "outputs = self.backbone.forward_with_filtered_kwargs("}},
};

// Zeros in place of relative biases, which blocks pass on to each other: with them reentrant
// checkpoints have an argument that asks for gradients.
constexpr NameFact kAskingUnderCheckpoints[] = {
    {"position_bias = torch.zeros(",
     {kTransformers, "models/t5/modeling_t5.py",
      "if self.gradient_checkpointing and self.training:"}},
};

// Which make such zeros, and do not ask.
constexpr NameFact kNotAsking[] = {
    {"models/umt5/",
     {kTransformers, "models/umt5/modeling_umt5.py", "position_bias = torch.zeros("}},
};

// To decoder layers and blocks that take their positions from elsewhere, too, rotated by the model.
constexpr NameFact kPassedToLayers[] = {
    {"position_ids = position_ids.unsqueeze(0)",
     {kTransformers, "models/llama/modeling_llama.py", "position_ids=position_ids,"}},
    {"position_ids = torch.arange(0, hidden_states.shape[1]",
     {kTransformers, "models/moonshine/modeling_moonshine.py", "position_ids=position_ids,"}},
    {"text_position_ids = position_ids[0]",
     {kTransformers, "models/qwen3_vl/modeling_qwen3_vl.py", "position_ids=text_position_ids,"}},
};

// Which embed positions, and pass them no further.
constexpr std::string_view kOwnPositions = "position_ids = position_ids.unsqueeze(0)";
constexpr NameFact kKeepingPositions[] = {
    {"models/ctrl/", {kTransformers, "models/ctrl/modeling_ctrl.py", kOwnPositions}},
    {"models/gpt_bigcode/",
     {kTransformers, "models/gpt_bigcode/modeling_gpt_bigcode.py", kOwnPositions}},
    {"models/imagegpt/", {kTransformers, "models/imagegpt/modeling_imagegpt.py", kOwnPositions}},
    {"models/decision_transformer/",
     {kTransformers, "models/decision_transformer/modeling_decision_transformer.py",
      kOwnPositions}},
};

constexpr std::string_view kStageOutputs =
    "stage_outputs = (hidden_states, hidden_states_before_downsampling, output_dimensions)";
constexpr ReturnedItemRow kReturnedItems[] = {
    {".ClapAudioStage", "blocks", {kTransformers, "models/clap/modeling_clap.py", kStageOutputs}},
};

std::string_view NameThatGoesWith(std::span<const NameOfLine> rows, std::string_view line) {
  const auto row = std::ranges::find_if(
      rows, [&](const NameOfLine& each) { return line.starts_with(each.line); });
  return row == rows.end() ? "" : row->name;
}

bool MentionsAny(std::span<const NameFact> rows, std::string_view line) {
  return std::ranges::any_of(
      rows, [&](const NameFact& row) { return line.find(row.name) != std::string_view::npos; });
}

}  // namespace

bool BeginsHead(std::string_view child) {
  return std::ranges::find(kHeadChildren, child, &NameFact::name) != std::end(kHeadChildren);
}

bool CollectsStates(std::string_view file) {
  return std::ranges::any_of(kCollectingFiles,
                             [&](const NameFact& row) { return file.starts_with(row.name); });
}

bool IsListOfCollected(std::string_view list) {
  return std::ranges::any_of(kCollectedLists,
                             [&](const NameFact& row) { return ChildOf(list) == row.name; });
}

bool CallsForFeatures(std::string_view line) { return MentionsAny(kCallingForFeatures, line); }

bool CallsBackbone(std::string_view line) { return MentionsAny(kCallingBackbones, line); }

bool IsReturnedField(std::string_view name) {
  return std::ranges::find(kReturnedFields, name, &NameFact::name) != std::end(kReturnedFields);
}

bool BindsReturned(std::string_view line) { return MentionsAny(kReturnedLines, line); }

bool ReturnsAllOf(std::string_view line) { return MentionsAny(kReturnedWhole, line); }

bool AsksUnderCheckpoints(std::string_view line, std::string_view file) {
  return MentionsAny(kAskingUnderCheckpoints, line) && !MentionsAny(kNotAsking, file);
}

bool IsPassedToLayers(std::string_view line, std::string_view file) {
  return MentionsAny(kPassedToLayers, line) && !MentionsAny(kKeepingPositions, file);
}

bool ReplacesWhatItHolds(std::string_view line) { return MentionsAny(kReplacing, line); }

bool KeepsWeightsUnlessAsked(std::string_view line) { return MentionsAny(kKeepingWeights, line); }

const StoredNames& NamesStoredByKind() { return kStoredNames; }

bool PassesEmbeddings(std::string_view line) { return MentionsAny(kPassingEmbeddings, line); }

bool ReturnsWeights(std::string_view line, std::string_view file) {
  return MentionsAny(kReturningWeights, line) && !MentionsAny(kReturningIfAsked, file);
}

std::span<const HelperLocal> HelperLocals() { return kHelperLocals; }

std::span<const ReturnedItemRow> ReturnedItems() { return kReturnedItems; }

std::string_view LastReturnedLocal(std::string_view line) {
  return NameThatGoesWith(kReturnedLocals, line);
}

std::string_view NameOfFirstResult(std::string_view line) {
  return NameThatGoesWith(kFirstResults, line);
}

bool ReturnsWeightsIfAsked(std::string_view file) { return MentionsAny(kReturningIfAsked, file); }

std::string_view CallOfEagerAttention() { return kEagerAttentionCalls[0].name; }

bool CastsWeightsToValues(std::string_view file) { return MentionsAny(kCastingToValues, file); }

}  // namespace onnxfit

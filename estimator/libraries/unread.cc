// What forwards run that no output needs, so that torch.export's ONNX has left it out.
#include <algorithm>
#include <span>
#include <string_view>

#include "estimator/libraries/libraries.h"
#include "estimator/libraries/rows.h"

namespace onnxfit {
namespace {

constexpr std::string_view kNormOfStates = "sequence_output = self.layernorm(sequence_output)";
constexpr std::string_view kPoolerOfStates =
    "pooled_output = self.pooler(sequence_output) if self.pooler is not None else None";
constexpr std::string_view kFlavaTowers = "models/flava/modeling_flava.py";

constexpr UnreadRunRow kUnreadRuns[] = {
    // Projections read the states of a layer.
    {"FlavaImageModel",
     "encoder",
     "",
     "layernorm",
     kNormOfStates,
     "pooler",
     kPoolerOfStates,
     {kTransformers, kFlavaTowers, "sequence_output = self.layernorm(sequence_output)"}},
    {"FlavaTextModel",
     "encoder",
     "",
     "layernorm",
     kNormOfStates,
     "pooler",
     kPoolerOfStates,
     {kTransformers, kFlavaTowers, "sequence_output = self.layernorm(sequence_output)"}},
    {"FlavaMultimodalModel",
     "layernorm",
     "",
     "",
     "",
     "pooler",
     kPoolerOfStates,
     {kTransformers, kFlavaTowers,
      "pooled_output = self.pooler(sequence_output) if self.pooler is not None"}},
    // A neck reads the states of several layers.
    {"DPTModel",
     "encoder",
     "",
     "layernorm",
     kNormOfStates,
     "",
     "",
     {kTransformers, "models/dpt/modeling_dpt.py",
      "sequence_output = self.layernorm(sequence_output)"}},
    {"CLIPVisionModel",
     "encoder",
     "pooled_output = last_hidden_state[:, 0, :]",
     "post_layernorm",
     "pooled_output = self.post_layernorm(pooled_output)",
     "",
     "",
     {kTransformers, "models/clip/modeling_clip.py",
      "pooled_output = self.post_layernorm(pooled_output)"}},
    // Masks that nobody gave choose all states.
    {"VJEPA2Model",
     "encoder",
     "",
     "",
     "",
     "",
     "",
     {kTransformers, "models/vjepa2/modeling_vjepa2.py",
      "masked_hidden_state=apply_masks(sequence_output, context_mask)"},
     "masked_hidden_state=apply_masks(sequence_output, context_mask),",
     "vjepa2"},
    // An encoder of EncoderDecoderModel.
    {"XLMRobertaModel",
     "encoder",
     "",
     "",
     "",
     "pooler",
     kPoolerOfStates,
     {kTransformers, "models/xlm_roberta/modeling_xlm_roberta.py",
      "pooled_output = self.pooler(sequence_output) if self.pooler is not None"}},
};

constexpr UnreadHeadRow kUnreadHeads[] = {
    {"Owlv2ForObjectDetection",
     "box_head",
     "objectness_head",
     {"dense0", "gelu", "dense1", "gelu", "dense2"},
     "objectness_logits = self.objectness_predictor(image_feats)",
     {kTransformers, "models/owlv2/modeling_owlv2.py",
      "objectness_logits = self.objectness_head(image_features)"}},
};

constexpr UnreadZerosRow kUnreadZeros[] = {
    // With a type_vocab_size of 0, the default.
    {"DebertaV2Model",
     "embeddings",
     "token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=device)",
     "encoder.layer.0.attention.self.query_proj",
     {kTransformers, "models/deberta_v2/modeling_deberta_v2.py",
      "token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=device)"}},
};

// DiagonalGaussianDistribution makes a mean, a variance and two kinds of its root.
constexpr NameFact kPosteriors[] = {
    {"posterior = self.encode(x).latent_dist",
     {kDiffusers, "models/autoencoders/vae.py", "class DiagonalGaussianDistribution(object):"}},
};

}  // namespace

std::span<const UnreadRunRow> UnreadRuns() { return kUnreadRuns; }

std::span<const UnreadHeadRow> UnreadHeads() { return kUnreadHeads; }

std::span<const UnreadZerosRow> UnreadZeros() { return kUnreadZeros; }

bool MakesPosterior(std::string_view line) {
  return std::ranges::any_of(kPosteriors,
                             [&](const NameFact& row) { return line.starts_with(row.name); });
}

}  // namespace onnxfit

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
     {kTransformers, kFlavaTowers, kNormOfStates}},
    {"FlavaTextModel",
     "encoder",
     "",
     "layernorm",
     kNormOfStates,
     "pooler",
     kPoolerOfStates,
     {kTransformers, kFlavaTowers, kNormOfStates}},
    {"FlavaMultimodalModel",
     "layernorm",
     "",
     "",
     "",
     "pooler",
     kPoolerOfStates,
     {kTransformers, kFlavaTowers, kPoolerOfStates}},
    // A neck reads the states of several layers.
    {"DPTModel",
     "encoder",
     "",
     "layernorm",
     kNormOfStates,
     "",
     "",
     {kTransformers, "models/dpt/modeling_dpt.py", kNormOfStates}},
    {"CLIPVisionModel",
     "encoder",
     "pooled_output = last_hidden_state[:, 0, :]",
     "post_layernorm",
     "pooled_output = self.post_layernorm(pooled_output)",
     "",
     "",
     {kTransformers, "models/clip/modeling_clip.py",
      "pooled_output = self.post_layernorm(pooled_output)"}},
    // An encoder of EncoderDecoderModel.
    {"XLMRobertaModel",
     "encoder",
     "",
     "",
     "",
     "pooler",
     kPoolerOfStates,
     {kTransformers, "models/xlm_roberta/modeling_xlm_roberta.py", kPoolerOfStates}},
};

// DiagonalGaussianDistribution makes a mean, a variance and two kinds of its root.
constexpr NameFact kPosteriors[] = {
    {"posterior = self.encode(x).latent_dist",
     {kDiffusers, "models/autoencoders/vae.py", "class DiagonalGaussianDistribution(object):"}},
};

}  // namespace

std::span<const UnreadRunRow> UnreadRuns() { return kUnreadRuns; }

bool MakesPosterior(std::string_view line) {
  return std::ranges::any_of(kPosteriors,
                             [&](const NameFact& row) { return line.starts_with(row.name); });
}

}  // namespace onnxfit

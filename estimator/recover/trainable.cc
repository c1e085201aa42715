#include "estimator/recover/trainable.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/program/gradient_flow.h"
#include "estimator/recover/quantized.h"

namespace onnxfit {
namespace {

// Biases and norms alone: the vectors that quantization leaves in floats.  Adapters beside
// quantized weights are matrices.
bool HasMatrices(const Program& program) {
  return std::any_of(program.parameters.begin(), program.parameters.end(),
                     [&](NameId name) { return program.values[Index(name)].type.dims.size() > 1; });
}

// "" where it can be.
std::string WhyNotTrainable(const Graph& graph, const Program& program) {
  if (program.loss == kNoName) return "no output holds floats, so there is no loss";
  if (program.parameters.empty() && !program.frozen.empty()) return "all parameters are frozen";
  const std::optional<NodeId> quantized = FindQuantizedWeight(graph);
  if (quantized.has_value() && !HasMatrices(program)) {
    return "its weights are integers, which have no gradient, the first at " +
           DisplayName(graph, *quantized);
  }
  const size_t count = program.parameters.size();
  if (count == 0) return "it has no parameters";
  if (UnreachedParameters(program).size() < count) return "";
  return fmt::format(
      "no gradient flows from the loss to {} (--loss-output names another output)",
      count == 1 ? "its one parameter" : fmt::format("any of its {} parameters", count));
}

}  // namespace

void CheckTrainable(const Graph& graph, const Program& program, const TrainingSettings& settings) {
  if (settings.mode == Mode::kEval || settings.loss == Loss::kNone) return;
  const std::string why = WhyNotTrainable(graph, program);
  if (why.empty()) return;
  throw Error(
      {.file = graph.path,
       .text = "this model cannot be trained: " + why,
       .hint = program.frozen.empty() ? "--mode eval, for inference" : "a narrower --freeze"});
}

}  // namespace onnxfit

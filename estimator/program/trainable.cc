#include "estimator/program/trainable.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/program/quantized.h"

namespace onnxfit {
namespace {

bool HoldsFloats(const Program& program, NameId name) {
  return name != kNoName && IsFloat(program.values[Index(name)].type.dtype);
}

// Under torch.no_grad() no gradient passes, but what returns its operand: a cast to the type that
// it has.
bool StopsGradients(const Program& program, const AtenCall& call) {
  if (!call.leaves_autograd) return false;
  const bool is_same = call.op == "to" && program.values[Index(call.inputs[0])].type ==
                                              program.values[Index(call.outputs[0])].type;
  return !is_same;
}

// Which names a gradient reaches: those of floats that lead to the loss through floats.
std::vector<bool> ReachedByGradients(const Program& program) {
  std::vector<bool> reached(program.values.size());
  reached[Index(program.loss)] = true;
  for (size_t i = program.calls.size(); i-- > 0;) {
    const AtenCall& call = program.calls[i];
    if (StopsGradients(program, call)) continue;
    const bool leads = std::any_of(call.outputs.begin(), call.outputs.end(), [&](NameId output) {
      return HoldsFloats(program, output) && reached[Index(output)];
    });
    for (const NameId input : call.inputs) {
      if (leads && HoldsFloats(program, input)) reached[Index(input)] = true;
    }
  }
  return reached;
}

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

std::vector<NameId> UnreachedParameters(const Program& program) {
  const std::vector<bool> reached = ReachedByGradients(program);
  std::vector<NameId> unreached;
  for (const NameId name : program.parameters) {
    if (!reached[Index(name)]) unreached.push_back(name);
  }
  return unreached;
}

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

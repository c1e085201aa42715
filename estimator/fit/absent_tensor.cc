#include "estimator/fit/absent_tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

std::string InsideText(const Prediction& prediction, const Rewritten& rewritten) {
  std::vector<std::string_view> ops;
  for (const NodeId node : rewritten.nodes) {
    ops.push_back(prediction.graph.nodes[Index(node)].op_type);
  }
  return fmt::format("PyTorch has no such tensor: {} are one call, {}, at {}",
                     fmt::join(ops, " + "), rewritten.aten,
                     DisplayName(prediction.graph, rewritten.last));
}

// Why a value of the file is no tensor of the program.
std::string AbsentValue(const Prediction& prediction, ValueId value) {
  const Value& found = prediction.graph.values[Index(value)];
  if (prediction.shapes.known[Index(value)].has_value()) {
    return "a number on the host: it follows from shapes and constants, so the device never "
           "has it";
  }
  for (const Rewritten& rewritten : prediction.program.rewrites) {
    if (std::ranges::find(rewritten.nodes, found.producer) == rewritten.nodes.end()) continue;
    return InsideText(prediction, rewritten);
  }
  for (const FoldedBatchNorm& folded : prediction.roles.folded) {
    const Node& node = prediction.graph.nodes[Index(folded.convolution)];
    if (node.inputs.size() < 3 || node.inputs[2] != value) continue;
    return fmt::format(
        "the exporter made it when it folded batch norm {} into {}: PyTorch has {} "
        "instead",
        folded.module, DisplayName(prediction.graph, folded.convolution), folded.module + ".bias");
  }
  if (found.initializer >= 0) {
    return "a constant of the file that no call of PyTorch takes as a tensor";
  }
  return "no call of PyTorch makes it";
}

bool IsFrozen(const Program& program, std::string_view parameter) {
  return std::ranges::any_of(
      program.frozen, [&](NameId name) { return program.values[Index(name)].name == parameter; });
}

std::string AbsentGradient(const Program& program, std::string_view tensor) {
  if (program.loss == kNoName) return "no backward runs, so there are no gradients";
  if (IsFrozen(program, tensor)) return "its parameter is frozen, so it gets no gradient";
  return "no memory of its own: it is the gradient that came in, or a view of it, or nobody "
         "wants it";
}

}  // namespace

std::string WhyAbsent(const Prediction& prediction, const NamedTensor& tensor) {
  if (tensor.value != kNoValue && tensor.names.empty()) {
    return AbsentValue(prediction, tensor.value);
  }
  const std::string_view name = tensor.name;
  if (name.ends_with(kGradSuffix)) {
    return AbsentGradient(prediction.program, name.substr(0, name.size() - kGradSuffix.size()));
  }
  return "nothing reads it, so PyTorch does not make it";
}

}  // namespace onnxfit

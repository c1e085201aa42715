#include "estimator/recover/exports.h"

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {

bool IsTrainingExport(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op_type == "Dropout" || node.op_type == "RandomUniformLike" ||
           IntAttribute(node, "training_mode", 0) == 1 ||
           (node.op_type == "BatchNormalization" && node.outputs.size() > 1);  // before opset 14
  });
}

bool IsUnfoldedExport(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const bool may_be = node.op_type == "Transpose" && node.name.starts_with('/');
    if (!may_be || node.inputs.empty() || node.inputs[0] == kNoValue) return false;
    const Value& weight = graph.values[Index(node.inputs[0])];
    return weight.initializer >= 0 && !IsComputedName(weight.name);
  });
}

}  // namespace onnxfit

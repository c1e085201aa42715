#include "estimator/program/exports.h"

#include <algorithm>

namespace onnxfit {

bool IsTrainingExport(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op_type == "Dropout" || node.op_type == "RandomUniformLike" ||
           IntAttribute(node, "training_mode", 0) == 1 ||
           (node.op_type == "BatchNormalization" && node.outputs.size() > 1);  // before opset 14
  });
}

}  // namespace onnxfit

#include "estimator/recover/parameter_floats.h"

#include <algorithm>

#include "estimator/base/index.h"

namespace onnxfit {

std::vector<bool> FloatsFedBy(const Graph& graph, const Shapes& shapes,
                              const std::vector<bool>& parameters) {
  std::vector<bool> fed = parameters;
  for (const Node& node : graph.nodes) {
    const bool is_fed = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId value) {
      return value != kNoValue && fed[Index(value)];
    });
    if (!is_fed) continue;
    for (const ValueId value : node.outputs) {
      if (value != kNoValue) fed[Index(value)] = IsFloat(shapes.types[Index(value)].tensor.dtype);
    }
  }
  return fed;
}

}  // namespace onnxfit

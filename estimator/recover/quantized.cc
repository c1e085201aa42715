#include "estimator/recover/quantized.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// Of any domain.  Source: ONNX's Operators.md (opset 21); ONNX Runtime's docs/ContribOperators.md
// (1.23).
constexpr std::string_view kQuantizing[] = {
    "ConvInteger",
    "DequantizeLinear",
    "DynamicQuantizeLinear",
    "MatMulInteger",
    "QLinearConv",
    "QLinearMatMul",
    "QuantizeLinear",
    "DynamicQuantizeLSTM",
    "DynamicQuantizeMatMul",
    "MatMulBnb4",
    "MatMulIntegerToFloat",
    "MatMulNBits",
    "QAttention",
    "QEmbedLayerNormalization",
    "QGemm",
    "QLinearAdd",
    "QLinearAveragePool",
    "QLinearConcat",
    "QLinearGlobalAveragePool",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
};

}  // namespace

bool IsQuantizing(const Node& node) {
  const std::string_view name = node.op_type.substr(node.op_type.rfind('.') + 1);
  return std::find(std::begin(kQuantizing), std::end(kQuantizing), name) != std::end(kQuantizing);
}

std::optional<NodeId> FindQuantizedWeight(const Graph& graph) {
  std::unordered_set<ValueId> integers;
  for (const Initializer& tensor : graph.initializers) {
    if (!IsFloat(tensor.type.dtype) && tensor.type.dims.size() > 1) integers.insert(tensor.value);
  }
  for (size_t i = 0; i < graph.nodes.size() && !integers.empty(); ++i) {
    const Node& node = graph.nodes[i];
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(),
                                   [&](ValueId value) { return integers.contains(value); });
    if (reads && IsQuantizing(node)) return static_cast<NodeId>(i);
  }
  return std::nullopt;
}

}  // namespace onnxfit

// Which dimension of an input recurrent layers read as the batch.
#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/onnx/dim_binding.h"

namespace onnxfit {
namespace {

constexpr std::string_view kRecurrent[] = {"LSTM", "GRU", "RNN"};

// Their result has the leading dimensions of the first input that is no tensor of the file.
constexpr std::string_view kKeepLeading[] = {"Add",
                                             "Cast",
                                             "Clip",
                                             "Div",
                                             "Dropout",
                                             "Elu",
                                             "Gelu",
                                             "Gemm",
                                             "HardSwish",
                                             "Identity",
                                             "LayerNormalization",
                                             "LeakyRelu",
                                             "MatMul",
                                             "Mul",
                                             "Relu",
                                             "Sigmoid",
                                             "Softmax",
                                             "Sub",
                                             "Tanh"};

template <size_t N>
bool IsOneOf(std::string_view op_type, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), op_type) != std::end(names);
}

class BatchSearch {
 public:
  explicit BatchSearch(const Graph& graph) : graph_(graph) {}

  // Back from dimension `axis` of `value`.
  std::optional<InputAxis> From(ValueId value, int axis) const {
    while (value != kNoValue) {
      const Value& read = graph_.values[Index(value)];
      if (read.is_input) return InputAxis{.input = value, .axis = axis};
      if (read.producer == kNoNode) return std::nullopt;
      const Node& node = graph_.nodes[Index(read.producer)];
      if (node.op_type == "Transpose" && !Permute(node, axis)) return std::nullopt;
      value = SourceOf(node);
    }
    return std::nullopt;
  }

 private:
  static bool Permute(const Node& node, int& axis) {
    const Attribute* attribute = FindAttribute(node, "perm");
    const auto* perm =
        attribute == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&attribute->value);
    if (perm == nullptr || Index(axis) >= perm->size() || (*perm)[Index(axis)] < 0) return false;
    axis = static_cast<int>((*perm)[Index(axis)]);
    return true;
  }

  ValueId SourceOf(const Node& node) const {
    if (!node.domain.empty() || node.inputs.empty()) return kNoValue;
    if (node.op_type == "Transpose") return node.inputs[0];
    if (node.op_type == "Gather") {  // an embedding
      const bool is_table =
          node.inputs.size() > 1 && IsStored(node.inputs[0]) && IntAttribute(node, "axis", 0) == 0;
      return is_table ? node.inputs[1] : kNoValue;
    }
    if (!IsOneOf(node.op_type, kKeepLeading)) return kNoValue;
    const auto computed = std::ranges::find_if(
        node.inputs, [&](ValueId value) { return value != kNoValue && !IsStored(value); });
    return computed == node.inputs.end() ? kNoValue : *computed;
  }

  bool IsStored(ValueId value) const {
    return value != kNoValue && graph_.values[Index(value)].initializer >= 0;
  }

  const Graph& graph_;
};

}  // namespace

std::optional<InputAxis> FindRecurrentBatch(const Graph& graph) {
  const BatchSearch search(graph);
  for (const Node& node : graph.nodes) {
    if (!node.domain.empty() || !IsOneOf(node.op_type, kRecurrent) || node.inputs.empty()) continue;
    auto found = search.From(node.inputs[0], IntAttribute(node, "layout", 0) == 1 ? 0 : 1);
    if (!found.has_value()) continue;
    found->layer = node.op_type;
    return found;
  }
  return std::nullopt;
}

}  // namespace onnxfit

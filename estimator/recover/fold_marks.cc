#include "estimator/recover/fold_marks.h"

#include <string_view>

#include "estimator/base/index.h"
#include "estimator/program/module_names.h"

namespace onnxfit {
namespace {

// Which name of a node carries a mark.
enum class Named : uint8_t { kNode, kResult, kWeight, kBias };

struct FoldMark {
  Named where;
  std::string_view mark;
  // Where the name of the batch norm's module stands beside the mark; else nowhere.
  bool module_before = false;
  bool module_after = false;  // of a tensor of the module: "bn1.bias"
};

constexpr FoldMark kFoldMarks[] = {
    // Keras 3's BatchNormalization, tf2onnx 1.17: "model/conv1_bn/batchnorm/mul_1".
    {Named::kNode, "/batchnorm/", true},
    {Named::kResult, "/batchnorm/", true},
    // TensorFlow's own operator, which tf2onnx 1.17 and the converter to TFLite leave in the
    // names of results: "model/bn/FusedBatchNormV3:0".
    {Named::kNode, "/FusedBatchNorm", true},
    {Named::kResult, "/FusedBatchNorm", true},
    // tf2onnx 1.17, back_to_back_optimizer.py: "Conv__12_weights_fused_bn".
    {Named::kWeight, "_weights_fused_bn"},
    // ONNX Runtime 1.23, conv_bn_fusion.cc: "ConvBnFusion_BN_B_layer1.0.bn1.bias".
    {Named::kBias, "ConvBnFusion_BN_B_", false, true},
    {Named::kWeight, "ConvBnFusion_W_"},
};

std::string_view NameAt(const Graph& graph, const Node& node, Named where) {
  const auto name = [&](const std::vector<ValueId>& values, size_t i) -> std::string_view {
    return i < values.size() && values[i] != kNoValue ? graph.values[Index(values[i])].name : "";
  };
  if (where == Named::kNode) return node.name;
  if (where == Named::kResult) return name(node.outputs, 0);
  return name(node.inputs, where == Named::kWeight ? 1 : 2);
}

std::string ModuleBy(const FoldMark& row, std::string_view name, size_t at) {
  if (row.module_before) return std::string(name.substr(0, at));
  const std::string_view behind = name.substr(at + row.mark.size());
  const bool has_parent = row.module_after && behind.find('.') != std::string_view::npos;
  return has_parent ? std::string(ParentOf(behind)) : "";
}

}  // namespace

std::optional<std::string> MarkedBatchNorm(const Graph& graph, const Node& node) {
  for (const FoldMark& row : kFoldMarks) {
    const std::string_view name = NameAt(graph, node, row.where);
    const size_t at = name.find(row.mark);
    if (at != std::string_view::npos) return ModuleBy(row, name, at);
  }
  return std::nullopt;
}

}  // namespace onnxfit

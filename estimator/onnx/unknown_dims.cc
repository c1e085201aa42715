// Dimensions that exporters write for ones that they leave open: -1, 0, "?", "None".
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

// What is written in place of a name: Paddle2ONNX writes "-1" and -1, InsightFace's files have "?"
// and "None" (Python's), which two dimensions share that are not the same.
constexpr std::string_view kPlaceholders[] = {"?", "-1", "None", "*", "unk", "unknown"};

bool IsPlaceholder(std::string_view name) {
  return std::ranges::find(kPlaceholders, name) != std::end(kPlaceholders);
}

template <typename Visit>
void VisitDims(onnx::TypeProto& type, Visit visit) {
  if (type.has_sequence_type()) {
    return VisitDims(*type.mutable_sequence_type()->mutable_elem_type(), visit);
  }
  if (type.has_optional_type()) {
    return VisitDims(*type.mutable_optional_type()->mutable_elem_type(), visit);
  }
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
  for (Dimension& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) visit(dim);
}

void FreeIfNegative(Dimension& dim) {
  if (dim.has_dim_value() && dim.dim_value() == -1) dim.clear_dim_value();
}

// Nobody asks for values inside the graph by such a name.
void FreeInside(onnx::ValueInfoProto& info) {
  if (!info.has_type()) return;
  VisitDims(*info.mutable_type(), [](Dimension& dim) {
    FreeIfNegative(dim);
    if (dim.has_dim_param() && IsPlaceholder(dim.dim_param())) dim.clear_dim_param();
  });
}

// One that stands once is a name by which people call it.
void FreeInputs(onnx::GraphProto& graph) {
  std::map<std::string, int> written;
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    VisitDims(*input.mutable_type(), [&](Dimension& dim) {
      FreeIfNegative(dim);
      if (IsPlaceholder(dim.dim_param())) ++written[dim.dim_param()];
    });
  }
  for (onnx::ValueInfoProto& input : *graph.mutable_input()) {
    VisitDims(*input.mutable_type(), [&](Dimension& dim) {
      const auto found = written.find(dim.dim_param());
      if (found != written.end() && found->second > 1) dim.clear_dim_param();
    });
  }
}

// -1 where it is no number.
int64_t FirstSize(const onnx::ValueInfoProto& input) {
  const auto& dims = input.type().tensor_type().shape().dim();
  return dims.empty() || !dims[0].has_dim_value() ? -1 : dims[0].dim_value();
}

// A first dimension of 0 is an open batch, as MXNet has it, where no other input has a number
// there; beside such a number it is an empty tensor, and stays.
void FreeEmptyBatches(onnx::GraphProto& graph) {
  auto& inputs = *graph.mutable_input();
  const auto is_empty = [](const auto& input) { return FirstSize(input) == 0; };
  if (std::ranges::none_of(inputs, is_empty)) return;
  std::unordered_set<std::string_view> stored;
  for (const onnx::TensorProto& tensor : graph.initializer()) stored.insert(tensor.name());
  const bool has_batch = std::ranges::any_of(inputs, [&](const auto& input) {
    return FirstSize(input) > 0 && !stored.contains(input.name());
  });
  if (has_batch) return;
  for (onnx::ValueInfoProto& input : inputs) {
    if (!is_empty(input)) continue;
    VisitDims(*input.mutable_type(), [](Dimension& dim) {
      if (dim.has_dim_value() && dim.dim_value() == 0) dim.clear_dim_value();
    });
  }
}

void FreeInsideOf(onnx::GraphProto& graph) {
  for (onnx::ValueInfoProto& info : *graph.mutable_value_info()) FreeInside(info);
  for (onnx::ValueInfoProto& info : *graph.mutable_output()) FreeInside(info);
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (!attribute.has_g()) continue;
      for (onnx::ValueInfoProto& info : *attribute.mutable_g()->mutable_input()) FreeInside(info);
      FreeInsideOf(*attribute.mutable_g());
    }
  }
}

}  // namespace

void FreeUnknownDims(onnx::GraphProto& graph) {
  FreeInputs(graph);
  FreeEmptyBatches(graph);
  FreeInsideOf(graph);
}

}  // namespace onnxfit

#include "estimator/onnx/old_ranks.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "estimator/onnx/contrib_operators.h"

namespace onnxfit {
namespace {

using OldRank = std::optional<int>;

int CountOf(const onnx::NodeProto& node, std::string_view attribute) {
  const onnx::AttributeProto* found = FindAttribute(node, attribute);
  return found == nullptr ? 0 : found->ints_size();
}

OldRank AsFirst(const OldRanks& ranks, const onnx::NodeProto& node) {
  return ranks.OfInput(node, 0);
}

template <int kRank>
OldRank Always(const OldRanks& /*ranks*/, const onnx::NodeProto& /*node*/) {
  return kRank;
}

OldRank Larger(const OldRanks& ranks, const onnx::NodeProto& node) {
  const OldRank a = ranks.OfInput(node, 0);
  const OldRank b = ranks.OfInput(node, 1);
  return a && b ? OldRank(std::max(*a, *b)) : std::nullopt;
}

OldRank Fewer(const OldRanks& ranks, const onnx::NodeProto& node) {
  const OldRank rank = ranks.OfInput(node, 0);
  return rank ? OldRank(*rank - CountOf(node, "axes")) : std::nullopt;
}

OldRank More(const OldRanks& ranks, const onnx::NodeProto& node) {
  const OldRank rank = ranks.OfInput(node, 0);
  return rank ? OldRank(*rank + CountOf(node, "axes")) : std::nullopt;
}

OldRank Gathered(const OldRanks& ranks, const onnx::NodeProto& node) {
  const OldRank table = ranks.OfInput(node, 0);
  const OldRank indices = ranks.OfInput(node, 1);
  return table && indices ? OldRank(*table + *indices - 1) : std::nullopt;
}

OldRank Reduced(const OldRanks& ranks, const onnx::NodeProto& node) {
  const onnx::AttributeProto* keeps = FindAttribute(node, "keepdims");
  if (keeps == nullptr || keeps->i() != 0) return ranks.OfInput(node, 0);
  if (FindAttribute(node, "axis") != nullptr || node.op_type().starts_with("Arg")) {
    const OldRank rank = ranks.OfInput(node, 0);
    return rank ? OldRank(*rank - 1) : std::nullopt;
  }
  return FindAttribute(node, "axes") == nullptr ? OldRank(0) : Fewer(ranks, node);
}

// Below opset 5 an attribute; else a list that is stored.
OldRank Reshaped(const OldRanks& ranks, const onnx::NodeProto& node) {
  if (const onnx::AttributeProto* shape = FindAttribute(node, "shape")) return shape->ints_size();
  const onnx::TensorProto* list = node.input_size() > 1 ? ranks.Stored(node.input(1)) : nullptr;
  if (list == nullptr || list->dims_size() != 1) return std::nullopt;
  return static_cast<int>(list->dims(0));
}

OldRank Stated(const OldRanks& /*ranks*/, const onnx::NodeProto& node) {
  const onnx::AttributeProto* value = FindAttribute(node, "value");
  return value == nullptr ? std::nullopt : OldRank(value->t().dims_size());
}

struct RowOfRank {
  std::string_view begins;  // of op_type
  OldRank (*rank)(const OldRanks&, const onnx::NodeProto&);
};

// Operators of opset 6 whose results have not as many dimensions as their first input.
constexpr RowOfRank kRowsOfRank[] = {
    {"Flatten", Always<2>}, {"Gemm", Always<2>}, {"Shape", Always<1>},  {"Size", Always<0>},
    {"MatMul", Larger},     {"Squeeze", Fewer},  {"Unsqueeze", More},   {"Gather", Gathered},
    {"Reduce", Reduced},    {"ArgM", Reduced},   {"Reshape", Reshaped}, {"Constant", Stated},
    {"LSTM", Always<4>},    {"GRU", Always<4>},  {"RNN", Always<4>},
};

}  // namespace

OldRanks::OldRanks(const onnx::GraphProto& graph) {
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto& type = input.type().tensor_type();
    if (type.has_shape()) ranks_[input.name()] = type.shape().dim_size();
  }
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    ranks_[tensor.name()] = tensor.dims_size();
    stored_[tensor.name()] = &tensor;
  }
}

void OldRanks::See(const onnx::NodeProto& node) {
  const auto* row = std::ranges::find_if(kRowsOfRank, [&](const RowOfRank& known) {
    return node.op_type().starts_with(known.begins);
  });
  const OldRank rank = row == std::end(kRowsOfRank) ? AsFirst(*this, node) : row->rank(*this, node);
  for (const std::string& output : node.output()) {
    if (rank) ranks_[output] = *rank;
  }
  const onnx::AttributeProto* value = FindAttribute(node, "value");
  if (node.op_type() == "Constant" && value != nullptr) stored_[node.output(0)] = &value->t();
}

std::optional<int> OldRanks::Of(const std::string& value) const {
  const auto found = ranks_.find(value);
  return found == ranks_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int> OldRanks::OfInput(const onnx::NodeProto& node, int input) const {
  return input < node.input_size() ? Of(node.input(input)) : std::nullopt;
}

const onnx::TensorProto* OldRanks::Stored(const std::string& value) const {
  const auto found = stored_.find(value);
  return found == stored_.end() ? nullptr : found->second;
}

}  // namespace onnxfit

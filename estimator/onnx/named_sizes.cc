#include "estimator/onnx/named_sizes.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <utility>

#include "estimator/base/expression.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

constexpr std::string_view kDigits = "0123456789";

bool NamesDim(const onnx::ValueInfoProto& info, std::string_view name) {
  if (!info.type().has_tensor_type()) return false;
  const auto& dims = info.type().tensor_type().shape().dim();
  return std::ranges::any_of(dims, [&](const auto& dim) { return dim.dim_param() == name; });
}

// "mask" of "mask.1".
std::string_view WithoutAxis(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot + 1 == name.size()) return name;
  const bool is_axis = name.find_first_not_of(kDigits, dot + 1) == name.npos;
  return is_axis ? name.substr(0, dot) : name;
}

// Whether a value of a body is called `value` where the body is written out: as it was, or behind
// the name of the node around it, "loop/mask_2" (Unique in inline_body.cc).
bool IsNameInBody(std::string_view value, std::string_view in_body) {
  if (!value.ends_with(in_body)) {
    const size_t end = value.find_last_not_of(kDigits) + 1;
    const bool is_counted = end > 0 && end < value.size() && value[end - 1] == '_';
    if (!is_counted || !value.substr(0, end - 1).ends_with(in_body)) return false;
    value = value.substr(0, end - 1);
  }
  return value.size() == in_body.size() || value[value.size() - in_body.size() - 1] == '/';
}

bool MakesInBodies(const onnx::GraphProto& graph, std::string_view name, int depth = 0) {
  const std::string_view value = WithoutAxis(name);
  const auto is_it = [&](const std::string& made) {
    return !made.empty() && (IsNameInBody(name, made) || IsNameInBody(value, made));
  };
  const auto names = [&](const onnx::ValueInfoProto& info) { return NamesDim(info, name); };
  for (const onnx::NodeProto& node : graph.node()) {
    if (depth > 0 && std::ranges::any_of(node.output(), is_it)) return true;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g() && MakesInBodies(attribute.g(), name, depth + 1)) return true;
    }
  }
  return depth > 0 && (std::ranges::any_of(graph.value_info(), names) ||
                       std::ranges::any_of(graph.output(), names));
}

}  // namespace

bool MayNameSize(const Graph& graph, std::string_view name) {
  const std::pair<std::string_view, std::string_view> entry = {kSizeOfData, name};
  if (std::ranges::find(graph.metadata, entry) != graph.metadata.end()) return true;
  const std::string_view value = WithoutAxis(name);
  const auto is_made = [&](const Value& made) {
    return made.producer != kNoNode && (made.name == name || made.name == value);
  };
  if (std::ranges::any_of(graph.values, is_made)) return true;
  const onnx::GraphProto& file = graph.model->proto.graph();
  const auto names = [&](const onnx::ValueInfoProto& info) { return NamesDim(info, name); };
  return std::ranges::any_of(file.value_info(), names) ||
         std::ranges::any_of(file.output(), names) || MakesInBodies(file, name);
}

bool MayNameSizeIn(const onnx::GraphProto& body, std::string_view name) {
  return MakesInBodies(body, name, 1);
}

bool IsMadeUp(std::string_view dimension) {
  const std::string_view rest = dimension.substr(0, dimension.find_last_not_of(kDigits) + 1);
  if (rest.size() == dimension.size()) return dimension.empty();
  return rest == "s" || rest == "unk__" || rest == "DynamicDimension." ||
         rest.ends_with("_dynamic_axes_");
}

std::optional<int64_t> SizeUnder(const std::string& dimension,
                                 const std::map<std::string, int64_t>& sizes) {
  const auto found = sizes.find(dimension);
  if (found != sizes.end()) return found->second;
  if (dimension.find_first_of("+-*/(") == dimension.npos) return std::nullopt;
  return Evaluate(dimension, {sizes.begin(), sizes.end()});
}

}  // namespace onnxfit

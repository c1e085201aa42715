#include "estimator/onnx/named_sizes.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

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
  return std::ranges::any_of(file.value_info(), names) || std::ranges::any_of(file.output(), names);
}

bool IsMadeUp(std::string_view dimension) {
  const std::string_view rest = dimension.substr(0, dimension.find_last_not_of(kDigits) + 1);
  if (rest.size() == dimension.size()) return dimension.empty();
  return rest == "s" || rest == "unk__" || rest.ends_with("_dynamic_axes_");
}

std::optional<BatchPlace> ParseBatchPlace(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == text.npos) return std::nullopt;
  BatchPlace place = {.axis = 0, .input = text.substr(blank + 1)};
  const auto [end, error] = std::from_chars(text.data(), text.data() + blank, place.axis);
  const bool is_whole = error == std::errc() && end == text.data() + blank && place.axis >= 0;
  return is_whole ? std::optional(place) : std::nullopt;
}

}  // namespace onnxfit

#include "estimator/recover/convolution_nodes.h"

#include <string_view>
#include <vector>

namespace onnxfit {
namespace {

// The attribute called `name`, or `count` times `absent`.
std::vector<int64_t> IntsAttribute(const Node& node, std::string_view name, size_t count,
                                   int64_t absent) {
  const Attribute* attribute = FindAttribute(node, name);
  const auto* ints =
      attribute == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(&attribute->value);
  return ints == nullptr ? std::vector<int64_t>(count, absent) : *ints;
}

std::string_view AutoPadOf(const Node& node) {
  const Attribute* attribute = FindAttribute(node, "auto_pad");
  const auto* text =
      attribute == nullptr ? nullptr : std::get_if<std::string_view>(&attribute->value);
  return text == nullptr ? "NOTSET" : *text;
}

// What both sides of a dimension are padded with together, so that the output has its size.
int64_t PaddedTogether(const ConvolutionArguments& arguments, const ConvolutionDims& dims,
                       size_t spatial) {
  const int64_t input = dims.input[spatial + 2];
  const int64_t output = dims.output[spatial + 2];
  const int64_t kernel = arguments.dilation[spatial] * (dims.weight[spatial + 2] - 1) + 1;
  const int64_t stride = arguments.stride[spatial];
  return arguments.is_transposed ? (input - 1) * stride + kernel - output
                                 : (output - 1) * stride + kernel - input;
}

// Of a dimension, where both sides have the same.
std::optional<int64_t> PaddingOf(const Node& node, const ConvolutionArguments& arguments,
                                 const ConvolutionDims& dims, size_t spatial) {
  const std::string_view automatic = AutoPadOf(node);
  if (automatic == "VALID") return 0;
  if (automatic.starts_with("SAME")) {
    const int64_t together = PaddedTogether(arguments, dims, spatial);
    return together >= 0 && together % 2 == 0 ? std::optional(together / 2) : std::nullopt;
  }
  const size_t count = arguments.stride.size();
  const std::vector<int64_t> pads = IntsAttribute(node, "pads", 2 * count, 0);
  const bool is_even = pads.size() == 2 * count && pads[spatial] == pads[spatial + count];
  return is_even ? std::optional(pads[spatial]) : std::nullopt;
}

}  // namespace

std::optional<ConvolutionArguments> ReadArguments(const Node& node, const ConvolutionDims& dims) {
  const size_t rank = dims.weight.size();
  if (rank < 3 || dims.input.size() != rank || dims.output.size() != rank) return std::nullopt;
  const size_t count = rank - 2;
  ConvolutionArguments arguments = {.stride = IntsAttribute(node, "strides", count, 1),
                                    .padding = {},
                                    .dilation = IntsAttribute(node, "dilations", count, 1),
                                    .groups = IntAttribute(node, "group", 1),
                                    .is_transposed = node.op_type == "ConvTranspose"};
  if (arguments.stride.size() != count || arguments.dilation.size() != count) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const std::optional<int64_t> padding = PaddingOf(node, arguments, dims, i);
    if (!padding) return std::nullopt;
    arguments.padding.push_back(*padding);
  }
  return arguments;
}

}  // namespace onnxfit

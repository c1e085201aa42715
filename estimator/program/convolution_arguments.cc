#include "estimator/program/convolution_arguments.h"

namespace onnxfit {
std::vector<int64_t> ToInts(const std::optional<ConvolutionArguments>& arguments) {
  if (!arguments) return {};
  std::vector<int64_t> ints = {arguments->groups, arguments->is_transposed ? 1 : 0};
  for (const auto* list : {&arguments->stride, &arguments->padding, &arguments->dilation}) {
    ints.insert(ints.end(), list->begin(), list->end());
  }
  return ints;
}

std::optional<ConvolutionArguments> ArgumentsIn(std::span<const int64_t> ints) {
  if (ints.size() < 2) return std::nullopt;
  const size_t count = (ints.size() - 2) / 3;
  const auto list = [&](size_t i) {
    const std::span<const int64_t> part = ints.subspan(2 + i * count, count);
    return std::vector<int64_t>(part.begin(), part.end());
  };
  return ConvolutionArguments{.stride = list(0),
                              .padding = list(1),
                              .dilation = list(2),
                              .groups = ints[0],
                              .is_transposed = ints[1] != 0};
}

}  // namespace onnxfit

// The numbers that a convolution takes, as integer arguments of its call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace onnxfit {

struct ConvolutionArguments {
  std::vector<int64_t> stride;  // these three: one a spatial dimension
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  bool is_transposed = false;

  bool operator==(const ConvolutionArguments&) const = default;
};

// As AtenCall::ints has them, and back.  Nothing of nothing.
std::vector<int64_t> ToInts(const std::optional<ConvolutionArguments>& arguments);
std::optional<ConvolutionArguments> ArgumentsIn(std::span<const int64_t> ints);

}  // namespace onnxfit

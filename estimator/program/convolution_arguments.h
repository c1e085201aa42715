// The numbers that a convolution takes, as integer arguments of its call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/graph/graph.h"

namespace onnxfit {

struct ConvolutionArguments {
  std::vector<int64_t> stride;  // these three: one a spatial dimension
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  bool is_transposed = false;

  bool operator==(const ConvolutionArguments&) const = default;
};

struct ConvolutionDims {
  const Dims& input;
  const Dims& weight;
  const Dims& output;
};

// Those of a Conv or ConvTranspose.  nullopt where it pads one side more than the other: PyTorch
// pads in a call of its own then, which no file shows.
std::optional<ConvolutionArguments> ReadArguments(const Node& node, const ConvolutionDims& dims);

// As AtenCall::ints has them, and back.  Nothing of nothing.
std::vector<int64_t> ToInts(const std::optional<ConvolutionArguments>& arguments);
std::optional<ConvolutionArguments> ArgumentsIn(std::span<const int64_t> ints);

}  // namespace onnxfit

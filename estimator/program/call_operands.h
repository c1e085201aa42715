// What ATen calls take: the one place that checks what rules (operators/ops_*.cc), and what takes
// calls apart, rest on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"

namespace onnxfit {

// The sizes of a call's tensors; null where there is none (kNoName).
struct CallOperands {
  std::string_view op;
  std::vector<const Dims*> inputs = {};
  std::vector<const Dims*> outputs = {};
  std::span<const int64_t> ints = {};
};

// Whether the call has the inputs that PyTorch's operator of that name needs, of sizes that go
// together: "linear" a matrix behind x, "permute" an order of x's dimensions.  A call that has not,
// which damaged or foreign metadata say, has to run as an unknown one ("?").  O(dimensions).
bool FitsRule(const CallOperands& call);

// The numbers that a convolution takes, as integer arguments of its call.
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

// How scatter_reduce and index_reduce reduce, as the first integer argument of their calls.
enum class Reduction : uint8_t { kSum, kMean, kExtreme, kProduct };
Reduction ReductionOf(std::string_view reduce);  // "amax"

}  // namespace onnxfit

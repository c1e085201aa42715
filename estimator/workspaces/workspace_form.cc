#include "estimator/workspaces/workspace_form.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"

namespace onnxfit {

int64_t FilledBytes(DType dtype, Dims dims, std::initializer_list<size_t> channels, int64_t width) {
  for (const size_t i : channels) dims[i] = RoundUp(dims[i], width);
  return BytesOf(TensorType{dtype, std::move(dims)});
}

bool IsPointwise(const Convolution& c) {
  const auto are = [](const std::vector<int64_t>& all, int64_t value) {
    return std::ranges::all_of(all, [&](int64_t each) { return each == value; });
  };
  return c.groups == 1 && are({c.weight.begin() + 2, c.weight.end()}, 1) && are(c.stride, 1) &&
         are(c.padding, 0);
}

int64_t AreaOfWindow(const Convolution& c) {
  return std::accumulate(c.weight.begin() + 2, c.weight.end(), int64_t{1}, std::multiplies<>());
}

namespace {

constexpr int kHopper = 9;

// As a ResNet begins: a large window, some steps apart, which overlaps itself.
bool IsStem(const Convolution& c) {
  constexpr int64_t kLarge = 49;
  return AreaOfWindow(c) >= kLarge && c.stride.back() > 1 && c.stride.back() < c.weight.back();
}

// Those of pictures, for which kernels in the order NCHW are taken.
bool HasFewChannels(const Convolution& c) {
  const bool is_wide = c.dtype == DType::kFloat32 && c.pass == ConvolutionPass::kForward;
  return c.stride.size() == 2 && !IsStem(c) && c.input[1] < (is_wide ? 32 : 8);
}

constexpr int64_t kBesideCopies = 16;

// A window of one element lies the same in both orders.
int64_t CopiesInNhwc(const Convolution& c) {
  const int64_t width = c.dtype == DType::kFloat32 ? 1 : 8;  // in 16 bits channels are filled up
  const int64_t tensors = CheckedAdd(FilledBytes(c.dtype, c.input, {1}, width),
                                     FilledBytes(c.dtype, c.output, {1}, width));
  const bool has_window = AreaOfWindow(c) > 1;
  const bool is_grouped = c.groups > 1;
  const int64_t weight = !has_window  ? 0
                         : is_grouped ? BytesOf(TensorType{c.dtype, c.weight})
                                      : FilledBytes(c.dtype, c.weight, {0, 1}, width);
  return CheckedAdd(tensors, CheckedAdd(weight, kBesideCopies));
}

// Tensors that lie in the order NHWC are read where they are, but for channels that do not fill
// 16 bytes: such tensors are copied, with channels that do, and the weight with them.  Kernels of
// the forward pass take few channels of x as they are.  None of weights' gradients: what these sum
// up in parts follows no form (40 % ask for nothing, half of the others for less than 2.7 MB).
int64_t CopiesOfUnfilled(const Convolution& c) {
  constexpr int64_t kFewChannels = 8;
  constexpr int64_t kVectorBits = 128;
  const int64_t width = kVectorBits / BitsOf(c.dtype);
  const auto copied = [&](const Dims& dims) {
    return dims[1] % width == 0 ? 0 : FilledBytes(c.dtype, dims, {1}, width);
  };
  const bool is_read = c.pass == ConvolutionPass::kForward && c.input[1] < kFewChannels;
  const int64_t tensors = CheckedAdd(is_read ? 0 : copied(c.input), copied(c.output));
  if (tensors == 0) return 0;
  const int64_t weight = FilledBytes(c.dtype, c.weight, {0, 1}, width);
  return CheckedAdd(CheckedAdd(tensors, weight), kBesideCopies);
}

int64_t FormedInNhwc(const Convolution& c) {
  const bool is_plain = c.groups == 1 && !c.is_transposed && AreaOfWindow(c) > 1;
  return is_plain && c.pass != ConvolutionPass::kWeightGradient ? CopiesOfUnfilled(c) : 0;
}

// A product for each sample, whose results are summed up in fp32, unless copies are much smaller.
int64_t WeightGradientOfPoints(const Convolution& c) {
  const bool is_one =
      std::all_of(c.output.begin() + 2, c.output.end(), [](int64_t size) { return size == 1; });
  if (is_one) return 0;
  const int64_t samples = CheckedMul(c.input[0], BytesOf(TensorType{DType::kFloat32, c.weight}));
  const int64_t copies = CopiesInNhwc(c);
  const int64_t times = c.dtype == DType::kFloat32 ? 8 : 2;
  return samples / times > copies ? copies : samples;
}

}  // namespace

bool RunsOnCublasLt(const Convolution& convolution, const DeviceProfile& device) {
  const bool has_type = convolution.dtype == DType::kFloat32 || MajorOf(device) >= kHopper;
  return has_type && IsPointwise(convolution);
}

bool HasWorkspaceForm(const DeviceProfile& device) { return MajorOf(device) == kHopper; }

int64_t FormedWorkspaceBytes(const Convolution& c) {
  if (c.dtype == DType::kFloat64) return 0;
  if (c.is_channels_last) return FormedInNhwc(c);
  if (IsPointwise(c))
    return c.pass == ConvolutionPass::kWeightGradient ? WeightGradientOfPoints(c) : 0;
  if (c.pass != ConvolutionPass::kWeightGradient && HasFewChannels(c)) return 0;
  return CopiesInNhwc(c);
}

std::optional<int64_t> FormedOn(const DeviceProfile& device, const Convolution& convolution) {
  return HasWorkspaceForm(device) ? std::optional(FormedWorkspaceBytes(convolution)) : std::nullopt;
}

}  // namespace onnxfit

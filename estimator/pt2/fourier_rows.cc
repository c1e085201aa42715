// Fourier transforms, which PyTorch takes apart into three kernels and what fits their inputs.
// Source: aten/src/ATen/native/SpectralOps.cpp, pytorch v2.11.0.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/pt2/call_rows.h"

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kFromReal = "_fft_r2c";
constexpr std::string_view kToReal = "_fft_c2r";
constexpr std::string_view kOfComplex = "_fft_c2c";

struct Transform {
  std::vector<int64_t> axes;
  std::vector<int64_t> sizes;  // of the input there; {}: as they are
};

std::vector<int64_t> ListAt(const CallWriter& writer, const Call& call, std::string_view name) {
  const Argument* argument = FindArgument(call, name);
  const bool is_list = argument != nullptr && argument->kind == Argument::Kind::kList;
  return is_list ? writer.IntsAt(call, name) : std::vector<int64_t>();
}

// Whether the call is fft_rfft2, say, and not fft_rfft or fft_rfftn.
bool IsOfTwo(const Call& call) { return call.target.find("2.default") != std::string::npos; }
bool IsOfMany(const Call& call) {
  return IsOfTwo(call) || call.target.find("n.default") != std::string::npos;
}

// Without "dim", the last ones: two, as many as there are sizes, or all.
std::vector<int64_t> AxesOf(CallWriter& writer, const Call& call, NameId x, size_t sizes) {
  const size_t rank = writer.DimsOf(x).size();
  std::vector<int64_t> axes = ListAt(writer, call, "dim");
  if (!axes.empty()) {
    for (int64_t& axis : axes) axis += axis < 0 ? static_cast<int64_t>(rank) : 0;
    return axes;
  }
  const size_t count = IsOfTwo(call) ? 2 : sizes > 0 ? sizes : rank;
  axes.resize(std::min(count, rank));
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(rank - axes.size()));
  return axes;
}

Transform ReadTransform(CallWriter& writer, const Call& call, NameId x, std::string_view kernel) {
  Transform transform;
  if (IsOfMany(call)) {
    transform.sizes = ListAt(writer, call, "s");
    transform.axes = AxesOf(writer, call, x, transform.sizes.size());
  } else {
    const auto last = static_cast<int64_t>(writer.DimsOf(x).size()) - 1;
    transform.axes = {writer.AxisAt(call, "dim", x, last)};
    if (const int64_t n = writer.IntAt(call, "n", 0); n > 0) transform.sizes = {n};
  }
  // Half of the frequencies are those of real numbers.
  if (kernel == kToReal && !transform.sizes.empty())
    transform.sizes.back() = transform.sizes.back() / 2 + 1;
  return transform;
}

bool IsValid(const Transform& transform, const Dims& dims) {
  const bool has_sizes = transform.sizes.empty() || transform.sizes.size() == transform.axes.size();
  return !transform.axes.empty() && has_sizes &&
         std::ranges::all_of(transform.axes,
                             [&](int64_t axis) { return axis >= 0 && axis < std::ssize(dims); });
}

// What is too long is cut, what is too short is padded.
NameId Fitted(CallWriter& writer, const Call& call, NameId x, const Transform& transform) {
  TensorType type = writer.program().values[Index(x)].type;
  TensorType cut = type;
  for (size_t i = 0; i < transform.sizes.size(); ++i) {
    const size_t axis = Index(transform.axes[i]);
    cut.dims[axis] = std::min(type.dims[axis], transform.sizes[i]);
    type.dims[axis] = transform.sizes[i];
  }
  const auto emit = [&](std::string_view op, const TensorType& made, std::vector<int64_t> ints) {
    const NameId result = writer.NewName(std::string(call.name) + "." + std::string(op), made);
    writer.Emit(op, {x}, {result}, std::move(ints));
    x = result;
  };
  constexpr int64_t kStep = 1;
  if (cut.dims != writer.DimsOf(x)) emit("slice", cut, {transform.axes[0], kStep});
  if (type.dims != cut.dims) emit("pad", type, {});
  return x;
}

NameId AsComplex(CallWriter& writer, const Call& call, NameId x) {
  const TensorType& type = writer.program().values[Index(x)].type;
  if (type.dtype == DType::kComplex64) return x;
  const NameId complex =
      writer.NewName(std::string(call.name) + ".complex", {DType::kComplex64, type.dims});
  writer.Emit("_to_copy", {x}, {complex});
  return complex;
}

// The kernel's axes go along where they are not the last ones in their order.
std::vector<int64_t> AxesAlong(const std::vector<int64_t>& axes, size_t rank) {
  std::vector<int64_t> last(axes.size());
  std::iota(last.begin(), last.end(), static_cast<int64_t>(rank - axes.size()));
  return axes == last ? std::vector<int64_t>() : axes;
}

// fft of real numbers along one dimension transforms them as such, along several as complex ones.
std::string_view KernelOf(const Call& call, std::string_view kernel, DType dtype) {
  const bool is_forward = call.target.find("ifft") == std::string::npos;
  const bool is_real = dtype != DType::kComplex64;
  return kernel == kOfComplex && is_real && is_forward && !IsOfMany(call) ? kFromReal : kernel;
}

void WriteTransform(CallWriter& writer, const Call& call, std::string_view op) {
  NameId x = writer.TensorAt(call, "self");
  if (x == kNoName) return writer.WriteUnknown(call);
  const DType dtype = writer.program().values[Index(x)].type.dtype;
  const std::string_view kernel = KernelOf(call, op, dtype);
  const Transform transform = ReadTransform(writer, call, x, kernel);
  const bool is_known =
      dtype == DType::kFloat32 || (dtype == DType::kComplex64 && kernel != kFromReal);
  // A single inverse of real numbers has another kernel, for their conjugates.
  const bool is_inverse_of_real =
      kernel == kOfComplex && dtype == DType::kFloat32 && !IsOfMany(call);
  if (!is_known || is_inverse_of_real || !IsValid(transform, writer.DimsOf(x)))
    return writer.WriteUnknown(call);
  if (kernel != kFromReal) x = AsComplex(writer, call, x);
  x = Fitted(writer, call, x, transform);
  writer.Emit(kernel, {x}, {writer.Result(call)},
              AxesAlong(transform.axes, writer.DimsOf(x).size()));
}

constexpr CallRow kFourierRows[] = {
    {"fft_rfft.default", kFromReal, WriteTransform},
    {"fft_rfft2.default", kFromReal, WriteTransform},
    {"fft_rfftn.default", kFromReal, WriteTransform},
    {"fft_irfft.default", kToReal, WriteTransform},
    {"fft_irfft2.default", kToReal, WriteTransform},
    {"fft_irfftn.default", kToReal, WriteTransform},
    {"fft_fft.default", kOfComplex, WriteTransform},
    {"fft_fft2.default", kOfComplex, WriteTransform},
    {"fft_fftn.default", kOfComplex, WriteTransform},
    {"fft_ifft.default", kOfComplex, WriteTransform},
    {"fft_ifft2.default", kOfComplex, WriteTransform},
    {"fft_ifftn.default", kOfComplex, WriteTransform},
};

}  // namespace

std::span<const CallRow> FourierRows() { return kFourierRows; }

}  // namespace onnxfit::pt2

// Powers, choices between tensors and special functions: formulas of several steps.  Sources:
// pytorch v2.11.0, tools/autograd/derivatives.yaml, and where they name a function,
// torch/csrc/autograd/FunctionsManual.cpp; the order of what they make from torch 2.11 events
// (arguments of a call from the last to the first; gradients by the names of the arguments).
// Autocast: the lists of aten/src/ATen/autocast_mode.h.
#include <algorithm>
#include <vector>

#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

TensorType BoolsOfSecond(const CallTypes& call) {
  return call.has_input(1) ? TensorType{DType::kBool, call.in(1).dims} : TensorType();
}

// A number of Python's on the device: at::pow (number, x) makes it (native/Pow.cpp).
TensorType Double(const CallTypes&) { return {DType::kFloat64, {}}; }

// Each of two operands by k tensors on the way, the second one first.
constexpr BackwardSteps kOneEach = {ScratchWith(1, LikeOutput), MakeGrad(1), DropScratch(),
                                    ScratchWith(0, LikeOutput), MakeGrad(0)};
constexpr BackwardSteps kThreeEach = {ScratchWith(1, LikeOutput),
                                      ScratchWith(1, LikeOutput),
                                      ScratchWith(1, LikeOutput),
                                      MakeGrad(1),
                                      DropScratch(),
                                      ScratchWith(0, LikeOutput),
                                      ScratchWith(0, LikeOutput),
                                      ScratchWith(0, LikeOutput),
                                      MakeGrad(0)};

// where (x >= min, grad, 0) and where (x < min, grad, 0)
constexpr BackwardSteps kBoundedByTensor = {
    ScratchWith(1, ScalarLikeOutput), ScratchWith(1, BoolsLikeOutput), MakeGrad(1), DropScratch(),
    ScratchWith(0, ScalarLikeOutput), ScratchWith(0, BoolsLikeOutput), MakeGrad(0)};

// --- Fourier transforms ---
// ints: the dimensions, {} of the last one or ones.  cuFFT transforms the last ones: others are
// copied there, and what it makes keeps that order.  Its own workspace is counted as the 256 bytes
// that it asks for where no card is.
// Source: _fft_r2c_cufft, _fft_c2r_cufft, _fft_c2c_cufft and _exec_fft of
// aten/src/ATen/native/cuda/SpectralOps.cpp, pytorch v2.11.0.

TensorType MovedBehind(const CallTypes& call, const StridedType& type) {
  return call.ints().empty() ? TensorType() : TensorType{type.dtype, type.dims};
}
TensorType InputMovedBehind(const CallTypes& call) { return MovedBehind(call, call.in(0)); }
TensorType GradientMovedBehind(const CallTypes& call) {
  return MovedBehind(call, call.incoming_gradient());
}
TensorType FourierWorkspace(const CallTypes&) { return {DType::kUint8, {256}}; }

// Contiguous with the dimensions that are transformed behind the others.
Dims StridesWithBehind(const Dims& dims, const std::vector<int64_t>& behind) {
  std::vector<size_t> order;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::ranges::find(behind, static_cast<int64_t>(i)) == behind.end()) order.push_back(i);
  }
  for (const int64_t axis : behind) order.push_back(Index(axis));
  Dims strides(dims.size());
  int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    strides[*axis] = stride;
    stride *= dims[*axis];
  }
  return strides;
}

// ONNX has complex numbers as pairs, whose strides say nothing of it.
Dims TransformedStrides(const CallTypes& call) {
  const Dims& dims = call.out(0).dims;
  const bool has_pairs = dims.size() != call.in(0).dims.size();
  return has_pairs ? ContiguousStrides(dims) : StridesWithBehind(dims, call.ints());
}

// All frequencies, zeros where there were none, are transformed, and the real parts of that are
// the gradient: every second number.
// Source: fft_r2c_backward of torch/csrc/autograd/FunctionsManual.cpp, pytorch v2.11.0.
void TransformBackward(Kernel& kernel) {
  if (!kernel.IsWanted(0)) return;
  const CallTypes& types = kernel.types();
  const TensorType all = {DType::kComplex64, types.in(0).dims};
  const bool has_all = types.out(0).dims == all.dims;
  const int frequencies = has_all ? -1 : kernel.Take(all);
  Dims pairs = all.dims;
  pairs.push_back(2);
  Dims strides = StridesWithBehind(all.dims, types.ints());
  for (int64_t& stride : strides) stride *= 2;
  kernel.MakeGrad(0, strides, pairs);
  const int moved = types.ints().empty() ? -1 : kernel.Take(all);
  kernel.Free(kernel.Take(FourierWorkspace(types)));
  if (moved >= 0) kernel.Free(moved);
  if (frequencies >= 0) kernel.Free(frequencies);
}

// What YosoCumulation keeps: all that it reads.
constexpr Slots kCumulated = In(0) | In(1) | In(2) | In(3) | In(4);
constexpr Slots kFactors = In(0) | In(1) | In(2) | In(3);
TensorType LikeSecondInput(const CallTypes& call) { return call.in(1); }
TensorType LikeFourth(const CallTypes& call) { return call.in(3); }

constexpr OpRule kMathRules[] = {
    // x is saved for the size of its last dimension alone.
    // In bfloat16 "Unsupported dtype BFloat16" (torch 2.11.0, on an H200).
    {.name = "_fft_r2c",
     .strides = TransformedStrides,
     .refuses = DType::kBFloat16,
     .gradients = {Reads(In(0))},
     .forward = {MakeOut(0), Scratch(InputMovedBehind), Passing(FourierWorkspace)},
     .run_backward = TransformBackward},
    // A clone of x, which is written over.
    {.name = "_fft_c2r",
     .strides = TransformedStrides,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(LikeInput), Scratch(InputMovedBehind),
                 Passing(FourierWorkspace)},
     .backward = {MakeGrad(0), Scratch(GradientMovedBehind), Passing(FourierWorkspace)}},
    {.name = "_fft_c2c",
     .strides = TransformedStrides,
     .gradients = {Reads({})},
     .forward = {MakeOut(0), Scratch(InputMovedBehind), Passing(FourierWorkspace)},
     .backward = {MakeGrad(0), Scratch(GradientMovedBehind), Passing(FourierWorkspace)}},
    // GeLUFunction of transformers 5.17.0, models/bloom/modeling_bloom.py, which keeps x alone: the
    // last product of bloom_gelu_forward, behind x; bloom_gelu_back makes tanh_out, then at most
    // four more beside it for ff, then ff * g.
    {.name = "bloom_gelu",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0))},
     .backward = {Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput),
                  Scratch(LikeInput), DropScratch(1, 4), Scratch(LikeInput), MakeGrad(0)}},
    // YosoCumulation of transformers 5.17.0, models/yoso/modeling_yoso.py: the product of what is
    // expected and the values, behind key, query and their mask.  Under autocast its backward
    // raises an error, for types that differ.
    {.name = "yoso_cumulation",
     .autocast = AutocastPolicy::kLower,
     .gradients = {Reads(kCumulated), Reads(kCumulated), kNoGradient, kNoGradient,
                   Reads(kCumulated)},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {Scratch(LikeFourth), Uses(Workspace::kCublas), Scratch(LikeFourth),
                  DropScratch(0, 1), Scratch(LikeInput), MakeGrad(1), DropScratch(2, 1),
                  Scratch(LikeSecondInput), MakeGrad(0), DropScratch(3, 1), MakeGrad(4)}},
    // HadaWeight of peft, tuners/loha/layer.py, which keeps its four factors: the last product of
    // ((w1a @ w1b) * (w2a @ w2b)) * scale, behind the factors.  Its backward makes grad * scale,
    // then for each pair of factors the other's product and what the gradient is of it, "temp",
    // whose first one lives until the name is bound anew.
    {.name = "hada_weight",
     .gradients = {Reads(kFactors), Reads(kFactors), Reads(kFactors), Reads(kFactors), kNoGradient},
     .backward = {Scratch(LikeOutput), Uses(Workspace::kCublas), Scratch(LikeOutput),
                  Scratch(LikeOutput), DropScratch(1, 1), MakeGrad(0), MakeGrad(1),
                  Scratch(LikeOutput), Scratch(LikeOutput), DropScratch(2, 2), MakeGrad(2),
                  MakeGrad(3)}},
    // x ** exponent: grad * where (x == 0 & exponent >= 0, 0, result * log (x));
    // where (exponent == 0, 0, grad * (exponent * x ** (exponent - 1)))
    {.name = "pow",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1) | Out(0))},
     .backward = {ScratchWith(1, BoolsOfSecond), ScratchWith(1, BoolsLikeInput),
                  ScratchWith(1, BoolsLikeOutput), DropScratch(0, 2), ScratchWith(1, LikeInput),
                  ScratchWith(1, LikeOutput), ScratchWith(1, ScalarLikeOutput),
                  ScratchWith(1, LikeOutput), MakeGrad(1), DropScratch(),
                  ScratchWith(0, LikeSecond), ScratchWith(0, LikeOutput),
                  ScratchWith(0, LikeOutput), ScratchWith(0, LikeOutput),
                  ScratchWith(0, ScalarLikeOutput), ScratchWith(0, BoolsOfSecond), MakeGrad(0)}},
    // number ** x: grad * (result * log (number))
    {.name = "pow.Scalar",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))},
     .forward = {MakeOut(0), Scratch(Double)},
     .backward = {Scratch(LikeInput), MakeGrad(0)}},
    // x * 2 ** other: grad * result * log (2); grad * 2 ** other
    {.name = "ldexp",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(1)), ReadsElementwise(Out(0))},
     .forward = {Scratch(LikeSecond), MakeOut(0)},
     .backward = {ScratchWith(1, LikeOutput), MakeGrad(1), DropScratch(),
                  ScratchWith(0, LikeSecond), PassingWith(0, Double), MakeGrad(0)}},
    // Its results are x's mantissa and exponent: grad / 2 ** exponent
    {.name = "frexp",
     .gradients = {ReadsElementwise(Out(1))},
     .backward = {Scratch(LikeInput), MakeGrad(0)}},

    // grad * -x / (x² + y²); grad * y / (x² + y²), 0 where that is
    // abs * (cos(angle) + i sin(angle))
    {.name = "polar", .gradients = {ReadsElementwise(Out(0)), ReadsElementwise(Out(0))}},
    {.name = "atan2",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kWidest,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {Scratch(LikeSecond), Scratch(LikeInput), Scratch(LikeOutput), DropScratch(0, 2),
                  Scratch(LikeOutput), PassingWith(0, BoolsLikeOutput), ScratchWith(0, LikeOutput),
                  MakeGrad(0), ScratchWith(1, LikeInput), ScratchWith(1, LikeOutput), MakeGrad(1)}},
    // grad * x / result
    {.name = "hypot",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | Out(0)), ReadsElementwise(In(1) | Out(0))},
     .backward = kOneEach},
    // grad / (1 + exp (y - x))
    {.name = "logaddexp",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = kThreeEach},
    // grad / (1 + 2 ** (y - x))
    {.name = "logaddexp2",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {ScratchWith(1, LikeOutput), ScratchWith(1, LikeOutput), PassingWith(1, Double),
                  ScratchWith(1, LikeOutput), MakeGrad(1), DropScratch(),
                  ScratchWith(0, LikeOutput), ScratchWith(0, LikeOutput), PassingWith(0, Double),
                  ScratchWith(0, LikeOutput), MakeGrad(0)}},
    // xlogy (grad, y), 0 where x == 0 & y <= 0; grad * x / y
    {.name = "xlogy",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {ScratchWith(1, LikeOutput), MakeGrad(1), DropScratch(),
                  ScratchWith(0, LikeOutput), ScratchWith(0, BoolsOfSecond),
                  ScratchWith(0, BoolsLikeInput), ScratchWith(0, BoolsLikeOutput), MakeGrad(0)}},
    // The same of y + 1.
    {.name = "special_xlog1py",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {ScratchWith(1, LikeSecond), ScratchWith(1, LikeOutput), MakeGrad(1),
                  DropScratch(), ScratchWith(0, LikeOutput), ScratchWith(0, BoolsOfSecond),
                  ScratchWith(0, BoolsLikeInput), ScratchWith(0, BoolsLikeOutput), MakeGrad(0)}},

    // x where it is positive, else x * noise
    {.name = "rrelu",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | Aux(0))},
     .aux = {{{"noise", LikeInput}}},
     .forward = {MakeAux(0), MakeOut(0)}},

    // Choices.  grad, 0 where the other one was chosen: (x >= y) | isnan (y)
    {.name = "fmax",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {ScratchWith(1, BoolsLikeOutput), ScratchWith(1, BoolsOfSecond), MakeGrad(1),
                  DropScratch(), ScratchWith(0, BoolsLikeOutput), ScratchWith(0, BoolsOfSecond),
                  MakeGrad(0)}},
    {.name = "clamp_min.Tensor",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = kBoundedByTensor},
    // x, min, max: where (min < max & x < min, grad, 0), where (max < min | x > max, grad, 0),
    // where (x >= min & x <= max, grad, 0)
    {.name = "clamp.Tensor",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1) | In(2)), ReadsElementwise(In(0) | In(1) | In(2)),
                   ReadsElementwise(In(0) | In(1) | In(2))},
     .backward = {ScratchWith(1, ScalarLikeOutput), ScratchWith(1, BoolsLikeOutput),
                  ScratchWith(1, BoolsLikeOutput), MakeGrad(1), DropScratch(1, 2),
                  ScratchWith(2, BoolsLikeOutput), ScratchWith(2, BoolsLikeOutput), MakeGrad(2),
                  DropScratch(), ScratchWith(0, ScalarLikeOutput), ScratchWith(0, BoolsLikeOutput),
                  ScratchWith(0, BoolsLikeOutput), MakeGrad(0)}},
    // x + weight * (end - x): grad * weight, grad * (1 - weight), grad * (end - x)
    {.name = "lerp.Tensor",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(2)), ReadsElementwise(In(2)),
                   ReadsElementwise(In(0) | In(1))},
     .backward = {MakeGrad(1), ScratchWith(0, LikeThird), MakeGrad(0), DropScratch(),
                  ScratchWith(2, LikeOutput), MakeGrad(2)}},
    // Rounded to whole numbers: zeros.
    {.name = "div.Tensor_mode",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {MakeGrad(1), MakeGrad(0)}},

    // grad * isfinite (x), which is (x == x) * (abs (x) != inf)
    {.name = "nan_to_num",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(0))},
     .backward = {Scratch(LikeInput), Scratch(BoolsLikeOutput), Scratch(BoolsLikeOutput),
                  Scratch(BoolsLikeOutput), DropScratch(0, 3), MakeGrad(0)}},
    // where (pi² x² == 0, 0, grad * ((pi x * cos (pi x) - sin (pi x)) / (pi² x²)))
    {.name = "sinc",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0))},
     .backward = {Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput), DropScratch(1, 1),
                  Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput),
                  Scratch(LikeInput), Scratch(LikeInput), DropScratch(3, 5),
                  Scratch(ScalarLikeOutput), Scratch(BoolsLikeOutput), MakeGrad(0)}},
    // (2 x * result - 2 / sqrt (pi)) * grad
    {.name = "special_erfcx",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | Out(0))},
     .backward = OnTheWay(3)},
    // grad * (i1e (x) - sgn (x) * result)
    {.name = "special_i0e",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | Out(0))},
     .backward = OnTheWay(4)},
    // grad * where (abs (x) > eps, i0 (y) - result * (1 / y), 0.5), y: where (abs (x) > eps, x,
    // eps)
    {.name = "special_i1",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | Out(0))},
     .backward = {Scratch(LikeInput), Scratch(BoolsLikeOutput), DropScratch(0, 1),
                  Scratch(ScalarLikeOutput), Scratch(LikeInput), DropScratch(2, 1),
                  Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput),
                  DropScratch(4, 3), Scratch(ScalarLikeOutput), Scratch(LikeInput), MakeGrad(0)}},
    // The same with i0e (y) - result * (sgn (y) + 1 / y).
    {.name = "special_i1e",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | Out(0))},
     .backward = {Scratch(LikeInput), Scratch(BoolsLikeOutput), DropScratch(0, 1),
                  Scratch(ScalarLikeOutput), Scratch(LikeInput), DropScratch(2, 1),
                  Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput), Scratch(LikeInput),
                  Scratch(LikeInput), Scratch(LikeInput), DropScratch(4, 5),
                  Scratch(ScalarLikeOutput), Scratch(LikeInput), MakeGrad(0)}},
    // grad / sqrt (2 pi) * exp (-(result + x ** 2 / 2))
    {.name = "special_log_ndtr",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | Out(0))},
     .backward = OnTheWay(6)},
    // grad * sqrt (2 pi) * exp (result ** 2 / 2)
    {.name = "special_ndtri",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(4)},
};

}  // namespace

std::span<const OpRule> MathRules() { return kMathRules; }

}  // namespace onnxfit

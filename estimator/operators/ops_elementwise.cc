// Elementwise operators.  Sources: pytorch v2.6.0 derivatives.yaml; order of gradients
// from recorded events, torch 2.11 (mul and div make the second operand's first).  Those
// that modules run with inplace=True, and `out += x`, may work in place; what saves its
// input then saves a clone (torch 2.11 events: relu6_, silu_, hardswish_, mish_).
// Autocast: the lists of aten/src/ATen/autocast_mode.h, pytorch v2.6.0.
#include "estimator/base/bytes.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"
#include "estimator/operators/strides.h"

namespace onnxfit {
namespace {

// x.to (dtype) is x where it has that type.
// A weight for each channel is viewed as [1, C, 1, …], behind its cast.
// Source: prelu of aten/src/ATen/native/Activation.cpp, pytorch v2.11.0.
void TakePreluApart(Dispatcher& dispatcher, const AtenCall& call) {
  NameId weight = call.inputs[1];
  const size_t rank = dispatcher.TypeOf(call.inputs[0]).dims.size();
  const StridedType type = dispatcher.TypeOf(weight);
  if (type.dims.size() == 1 && rank > 1) {
    Dims dims(rank, 1);
    dims[1] = type.dims[0];
    weight = dispatcher.Make("view", {weight}, {type.dtype, dims});
  }
  dispatcher.MakeResult("_prelu_kernel", {call.inputs[0], weight});
}

void CastUnlessThere(Dispatcher& dispatcher, const AtenCall& call) {
  const DType dtype = dispatcher.TypeOf(call.outputs[0]).dtype;
  if (dispatcher.TypeOf(call.inputs[0]).dtype == dtype) {
    return dispatcher.ReturnSame(call.inputs[0]);
  }
  dispatcher.MakeResult("_to_copy", {call.inputs[0]});
}

// x.to(dtype), of what a variable holds the type of, too
void TakeCastApart(Dispatcher& dispatcher, const AtenCall& call) {
  if (call.typed_like != kNoName)
    dispatcher.SetResultType(dispatcher.TypeOf(call.typed_like).dtype);
  CastUnlessThere(dispatcher, call);
}

// x.type_as(other)
void CastToTypeOfSecond(Dispatcher& dispatcher, const AtenCall& call) {
  dispatcher.SetResultType(dispatcher.TypeOf(call.inputs[1]).dtype);
  CastUnlessThere(dispatcher, call);
}

// x.float() of what has 16 bits, x.to(dtype) of what has 32, in a run in 16 bits; to the type of a
// second operand where there is one.
void CastToOtherWidth(Dispatcher& dispatcher, const AtenCall& call) {
  if (call.inputs.size() > 1) return CastToTypeOfSecond(dispatcher, call);
  const bool is_narrow = BitsOf(dispatcher.TypeOf(call.inputs[0]).dtype) == 16;
  dispatcher.SetResultType(is_narrow ? DType::kFloat32 : dispatcher.parameter_type());
  CastUnlessThere(dispatcher, call);
}

// grad / 2 where both are equal, 0 where the other is chosen.
constexpr BackwardSteps kHalvesOfEqual = {ScratchWith(1, LikeOutput),
                                          ScratchWith(1, BoolsLikeOutput),
                                          MakeGrad(1),
                                          ScratchWith(1, BoolsLikeOutput),
                                          DropScratch(),
                                          ScratchWith(0, LikeOutput),
                                          ScratchWith(0, BoolsLikeOutput),
                                          MakeGrad(0),
                                          ScratchWith(0, BoolsLikeOutput)};

// As memory_format=torch.preserve_format keeps them, of a dimension of 1, too; also of both halves
// of x.
Dims AsFirst(const CallTypes& call) { return StridesAs(call.out(0).dims, call.in(0).strides); }

// where (condition, 0, grad), then where (condition, grad, 0), which lie as the condition does
// first.
void WhereBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const StridedType& gradient = types.incoming_gradient();
  const StridedType* const operands[] = {&types.in(0), &gradient};
  for (const int i : {2, 1}) {
    if (!kernel.IsWanted(i)) continue;
    const int zero = kernel.Take(ScalarLikeOutput(types));
    kernel.MakeGrad(i, ElementwiseStrides(gradient.dims, operands));
    kernel.Free(zero);
  }
}

// What is computed of a complex tensor, whose real part is then copied into the result
// (unary_op_impl_with_complex_to_float_out of UnaryOps.cpp, pytorch v2.11.0).
TensorType ComplexResult(const CallTypes& call) {
  return IsComplex(call.in(0).dtype) ? LikeInput(call) : TensorType();
}

// What is in place on a view (a linear layer's result of three dimensions) goes through
// CopySlices.
constexpr BackwardSteps kInPlace = {OverView(Scratch(LikeOutput)), OverView(DropGradient()),
                                    MakeGrad(0), OverView(Scratch(LikeOutput)),
                                    OverView(Scratch(LikeOutput))};

constexpr OpRule kElementwiseRules[] = {
    // Sums keep nothing: the incoming gradient goes to both.
    {.name = "add",
     .strides = AsOperands,
     .in_place = InPlace::kResult,
     .promotes = true,
     .gradients = {PassThrough(), PassThrough()}},
    {.name = "sub",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .promotes = true,
     .gradients = {PassThrough(), ReadsElementwise({})}},
    {.name = "neg",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise({})}},
    {.name = "mul",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .promotes = true,
     .gradients = {ReadsElementwise(In(1)), ReadsElementwise(In(0))},
     .backward = {MakeGrad(1), MakeGrad(0)}},
    {.name = "div",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .promotes = true,
     .gradients = {ReadsElementwise(In(1)), ReadsElementwise(In(0) | In(1))},
     // -grad * ((x / other) / other)
     .backward = {ScratchWith(1, LikeOutput), ScratchWith(1, LikeOutput),
                  ScratchWith(1, LikeOutput), MakeGrad(1), DropScratch(), MakeGrad(0)}},
    // grad; of the other one -grad * floor (x / other)
    {.name = "remainder",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {PassThrough(), ReadsElementwise(In(0) | In(1))},
     .backward = {MakeGrad(0), ScratchWith(1, LikeOutput), ScratchWith(1, LikeOutput),
                  MakeGrad(1)}},
    // x + a * b and x + a / b by one kernel; grad * (b * value)
    {.name = "addcmul",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kWidest,
     .promotes = true,
     .gradients = {PassThrough(), ReadsElementwise(In(2)), ReadsElementwise(In(1))},
     .backward = {MakeGrad(0), ScratchWith(1, LikeThird), MakeGrad(1), DropScratch(),
                  ScratchWith(2, LikeSecond), MakeGrad(2)}},
    {.name = "addcdiv",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kWidest,
     .promotes = true,
     .gradients = {PassThrough(), ReadsElementwise(In(2)), ReadsElementwise(In(1) | In(2))},
     // grad * (value / b), -grad * (value * a / (b * b))
     .backward = {MakeGrad(0), ScratchWith(1, LikeThird), MakeGrad(1), DropScratch(),
                  ScratchWith(2, LikeThird), ScratchWith(2, LikeSecond), ScratchWith(2, LikeOutput),
                  ScratchWith(2, LikeOutput), MakeGrad(2)}},
    {.name = "lerp",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise({}), ReadsElementwise({})}},
    // grad * (exponent * x ** (exponent - 1))
    {.name = "pow.Tensor_Scalar",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(2)},
    // By a number: only one side has a gradient, and nothing is kept.
    {.name = "mul.Scalar",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise({})}},
    {.name = "add.Scalar",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {PassThrough()}},

    // Kept: the result.  Its backward reads that first, then the gradient, as that of leaky_relu
    // does: it lies as the input (aten/src/ATen/native/Activation.cpp, pytorch v2.11.0).
    {.name = "relu",
     .strides = AsOperands,
     .in_place = InPlace::kResult,
     .gradients = {ReadsAsInput(Out(0))},
     .backward = kInPlace},
    {.name = "sigmoid",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(Out(0))}},
    {.name = "tanh",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(Out(0))}},
    {.name = "exp",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))}},
    {.name = "expm1",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(1)},
    {.name = "sqrt",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(1)},
    {.name = "sqrt_",
     .in_place = InPlace::kAlways,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(1)},
    // -0.5 * grad * result ** 3
    {.name = "rsqrt",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(2)},
    {.name = "reciprocal",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(2)},
    {.name = "tan",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))},
     .backward = OnTheWay(2)},

    // Kept: the input.
    // In place they keep the result, which then is the same storage.
    {.name = "leaky_relu",
     .strides = AsOperands,
     .in_place = InPlace::kResult,
     .gradients = {ReadsAsInput(In(0))},
     .backward = kInPlace},
    {.name = "elu",
     .strides = AsOperands,
     .in_place = InPlace::kResult,
     .gradients = {ReadsElementwise(In(0))},
     .backward = kInPlace},
    {.name = "glu", .strides = AsFirst, .gradients = {Reads(In(0))}},
    {.name = "log_sigmoid", .strides = AsOperands, .gradients = {ReadsElementwise(In(0))}},
    {.name = "softplus",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))}},
    {.name = "hardtanh",
     .strides = AsOperands,
     .in_place = InPlace::kClone,
     .gradients = {ReadsElementwise(In(0))},
     .backward = kInPlace},
    {.name = "hardswish",
     .strides = AsOperands,
     .in_place = InPlace::kClone,
     .gradients = {ReadsElementwise(In(0))},
     .backward = kInPlace},
    {.name = "hardsigmoid", .strides = AsOperands, .gradients = {ReadsElementwise(In(0))}},
    {.name = "mish",
     .strides = AsOperands,
     .in_place = InPlace::kClone,
     .gradients = {ReadsElementwise(In(0))},
     .backward = kInPlace},
    {.name = "gelu", .strides = AsOperands, .gradients = {ReadsElementwise(In(0))}},
    {.name = "silu",
     .strides = AsOperands,
     .in_place = InPlace::kClone,
     .gradients = {ReadsElementwise(In(0))},
     .backward = kInPlace},
    {.name = "log",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))}},
    // grad / (x * ln (2))
    {.name = "log2",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(1)},
    {.name = "log1p",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(1)},
    {.name = "erf",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(4)},
    {.name = "abs",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(0))},
     .forward = {MakeOut(0), Scratch(ComplexResult)},
     .backward = OnTheWay(1)},
    {.name = "sin",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(1)},
    {.name = "cos",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(2)},
    {.name = "atan",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(2)},
    // grad * cosh (x)
    {.name = "sinh",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(1)},
    // grad * rsqrt (-x * x + 1); of acos grad * -rsqrt (-x * x + 1)
    {.name = "asin",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(4)},
    {.name = "acos",
     .strides = AsOperands,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(5)},
    // grad * rsqrt (x ** 2 + 1)
    {.name = "asinh",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0))},
     .backward = OnTheWay(3)},
    // where (x >= min && x <= max, grad, 0); of one bound one comparison.
    {.name = "clamp",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(0))},
     .backward = {Scratch(ScalarLikeOutput), Scratch(BoolsLikeOutput), Scratch(BoolsLikeOutput),
                  MakeGrad(0)}},
    {.name = "clamp_min",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise(In(0))},
     .backward = {Scratch(ScalarLikeOutput), Scratch(BoolsLikeOutput), MakeGrad(0)}},
    // The gradient is zeros.
    {.name = "floor",
     .strides = AsOperands,
     .in_place = InPlace::kIfNamed,
     .gradients = {ReadsElementwise({})}},
    {.name = "tril", .gradients = {Reads({})}},
    // grad * (result / x, 0 where x is 0); of the other one zeros
    {.name = "copysign",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | Out(0)), Reads({})},
     .backward = {MakeGrad(1), ScratchWith(0, LikeOutput), PassingWith(0, BoolsLikeOutput),
                  MakeGrad(0)}},
    // grad, mask: grad * (mask * scale)
    {.name = "native_dropout_backward",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(In(0) | In(1))},
     .backward = OnTheWay(2)},
    // x, mask: of a contiguous clone (aten/src/ATen/native/cuda/Indexing.cu)
    {.name = "masked_fill", .in_place = InPlace::kIfNamed, .gradients = {Reads(In(1))}},
    {.name = "masked_fill_", .in_place = InPlace::kAlways, .gradients = {Reads(In(1))}},
    {.name = "bernoulli.self", .gradients = {ReadsElementwise({})}},
    {.name = "prelu", .take_apart = TakePreluApart, .autocast = AutocastPolicy::kLower},
    {.name = "_prelu_kernel",
     .strides = AsOperands,
     .gradients = {ReadsAsInput(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .makes_all_gradients = [](const CallTypes&) { return true; }},

    {.name = "where",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {kNoGradient, ReadsElementwise(In(0)), ReadsElementwise(In(0))},
     .run_backward = WhereBackward},
    {.name = "minimum",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = kHalvesOfEqual},
    {.name = "maximum",
     .strides = AsOperands,
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = kHalvesOfEqual},

    // A cast: its gradient is cast back.
    {.name = "to", .take_apart = TakeCastApart},
    {.name = "to_other_width", .take_apart = CastToOtherWidth},
    {.name = "type_as", .take_apart = CastToTypeOfSecond},
    {.name = "_to_copy", .strides = AsFirst, .has_own_type = true, .gradients = {CastsBack()}},

    // Not differentiable: the output is all there is.
    {.name = "argmax"},
    {.name = "nonzero"},  // and all that chooses places, or makes integers of less bits
    {.name = "eq", .strides = AsOperands},  // and all comparisons
};

}  // namespace

Dims AsOperands(const CallTypes& call) {
  std::vector<const StridedType*> operands;
  for (size_t i = 0; i < call.input_count(); ++i) {
    if (call.has_input(i)) operands.push_back(&call.in(i));
  }
  return ElementwiseStrides(call.out(0).dims, operands);
}

std::span<const OpRule> ElementwiseRules() { return kElementwiseRules; }

// --- Dropout -------------------------------------------------------------------

// Source: pytorch v2.6.0 derivatives.yaml (native_dropout); torch 2.11 events:
// the mask is made before the output; in place, the noise is in the input's dtype, and the
// gradient of what is in place on a view (a flattened tensor) goes through CopySlices.

namespace {

// In the memory format that the incoming gradient suggests (native_dropout_backward_cuda of
// aten/src/ATen/native/cuda/Dropout.cu, pytorch v2.11.0).
void DropoutBackward(Kernel& kernel) {
  const StridedType& gradient = kernel.types().incoming_gradient();
  kernel.MakeGrad(0, StridesIn(SuggestedFormat(gradient), gradient.dims));
}

constexpr OpRule kDropoutRules[] = {
    {.name = "dropout",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(Aux(0))},
     .aux = {{{"mask", BoolsLikeOutput}}},
     .forward = {MakeAux(0), MakeOut(0)},
     .run_backward = DropoutBackward},
    {.name = "dropout_",
     .in_place = InPlace::kAlways,
     .gradients = {Reads(Aux(0))},
     .aux = {{{"noise", LikeOutput}}},
     .forward = {MakeAux(0), MakeOut(0)},
     .backward = {OverView(Scratch(LikeOutput)), OverView(DropGradient()), MakeGrad(0),
                  OverView(Scratch(LikeOutput)), OverView(Scratch(LikeOutput))}},
};

}  // namespace

std::span<const OpRule> DropoutRules() { return kDropoutRules; }

}  // namespace onnxfit

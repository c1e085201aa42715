// Elementwise operators.  Sources: pytorch v2.6.0 derivatives.yaml; order of gradients
// from recorded events, torch 2.11 (mul and div make the second operand's first).  Those
// that modules run with inplace=True, and `out += x`, may work in place; what saves its
// input then saves a clone (torch 2.11 events: relu6_, silu_, hardswish_, mish_).
// Autocast: the lists of aten/src/ATen/autocast_mode.h, pytorch v2.6.0.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

constexpr OpRule kRules[] = {
    // Sums keep nothing: the incoming gradient goes to both.
    {.name = "add",
     .in_place = InPlace::kResult,
     .promotes = true,
     .gradients = {PassThrough(), PassThrough()}},
    {.name = "sub", .promotes = true, .gradients = {PassThrough(), ReadsElementwise({})}},
    {.name = "neg", .gradients = {ReadsElementwise({})}},
    {.name = "mul",
     .promotes = true,
     .gradients = {ReadsElementwise(In(1)), ReadsElementwise(In(0))},
     .backward = {MakeGrad(1), MakeGrad(0)}},
    {.name = "div",
     .promotes = true,
     .gradients = {ReadsElementwise(In(1)), ReadsElementwise(In(0) | In(1))},
     .backward = {MakeGrad(1), MakeGrad(0)}},
    {.name = "pow",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1) | Out(0))}},
    {.name = "pow.Scalar",  // number ** x
     .autocast = AutocastPolicy::kFp32,
     .gradients = {ReadsElementwise(Out(0))}},
    // By a number: only one side has a gradient, and nothing is kept.
    {.name = "mul.Scalar", .gradients = {ReadsElementwise({})}},
    {.name = "add.Scalar", .gradients = {PassThrough()}},

    // Kept: the result.
    {.name = "relu", .in_place = InPlace::kResult, .gradients = {Reads(Out(0))}},
    {.name = "sigmoid", .gradients = {Reads(Out(0))}},
    {.name = "tanh", .gradients = {Reads(Out(0))}},
    {.name = "exp", .autocast = AutocastPolicy::kFp32, .gradients = {Reads(Out(0))}},
    {.name = "sqrt", .gradients = {Reads(Out(0))}},
    {.name = "rsqrt", .autocast = AutocastPolicy::kFp32, .gradients = {Reads(Out(0))}},
    {.name = "reciprocal", .autocast = AutocastPolicy::kFp32, .gradients = {Reads(Out(0))}},

    // Kept: the input.
    {.name = "leaky_relu", .gradients = {Reads(In(0))}},
    {.name = "elu", .gradients = {Reads(In(0))}},
    {.name = "softplus", .autocast = AutocastPolicy::kFp32, .gradients = {Reads(In(0))}},
    {.name = "hardtanh", .in_place = InPlace::kClone, .gradients = {Reads(In(0))}},
    {.name = "hardswish", .in_place = InPlace::kClone, .gradients = {Reads(In(0))}},
    {.name = "hardsigmoid", .gradients = {Reads(In(0))}},
    {.name = "mish", .in_place = InPlace::kClone, .gradients = {Reads(In(0))}},
    {.name = "gelu", .gradients = {Reads(In(0))}},
    {.name = "silu", .in_place = InPlace::kClone, .gradients = {Reads(In(0))}},
    {.name = "log", .autocast = AutocastPolicy::kFp32, .gradients = {Reads(In(0))}},
    {.name = "erf", .gradients = {Reads(In(0))}},
    {.name = "abs", .gradients = {Reads(In(0))}},
    {.name = "prelu",
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))},
     .makes_all_gradients = [](const CallTypes&) { return true; }},

    {.name = "where",
     .promotes = true,
     .gradients = {kNoGradient, ReadsElementwise(In(0)), ReadsElementwise(In(0))}},
    {.name = "minimum",
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))}},
    {.name = "maximum",
     .promotes = true,
     .gradients = {ReadsElementwise(In(0) | In(1)), ReadsElementwise(In(0) | In(1))}},

    // A cast: its gradient is cast back.
    {.name = "to", .gradients = {Reads({})}},

    // Not differentiable: the output is all there is.
    {.name = "compare"},
};

}  // namespace

std::span<const OpRule> ElementwiseRules() { return kRules; }

}  // namespace onnxfit

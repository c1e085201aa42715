// Pooling and reductions.  Sources: pytorch v2.6.0 derivatives.yaml; orders from recorded events,
// torch 2.11 (the pooled values before their indices).
#include "estimator/eager/op_rule.h"

namespace onnxfit {

namespace {

TensorType Indices(const CallTypes& call) { return {DType::kInt64, call.out(0).dims}; }

TensorType InputAsOutput(const CallTypes& call) { return {call.out(0).dtype, call.in(0).dims}; }
TensorType BoolsOfOutput(const CallTypes& call) { return {DType::kBool, call.out(0).dims}; }

constexpr OpRule kReductionRules[] = {
    {.name = "max_pool2d", .gradients = {Reads(In(0) | Aux(0))}, .aux = {{{"indices", Indices}}}},
    {.name = "avg_pool2d", .gradients = {Reads(In(0))}},
    // Means keep nothing; their gradient has the input's full size.
    {.name = "mean", .gradients = {Reads({})}},
    {.name = "sum", .autocast = AutocastPolicy::kFp32Result, .gradients = {Expands()}},
    // Beside the value the place where it was found, which its gradient is scattered to.
    {.name = "max.dim", .gradients = {Reads(Aux(0))}, .aux = {{{"indices", Indices}}}},
    {.name = "amax", .gradients = {Reads(In(0) | Out(0))}},
    // grad * (x - mean) * number; of std divided by it
    {.name = "var", .gradients = {Reads(In(0))}},
    {.name = "std", .gradients = {Reads(In(0) | Out(0))}},
    // x * (grad / norm), 0 where the norm is, in the norm's type
    {.name = "norm",
     .autocast = AutocastPolicy::kFp32Result,
     .gradients = {Reads(In(0) | Out(0))},
     .backward = {Scratch(InputAsOutput), Scratch(BoolsOfOutput), Scratch(InputAsOutput),
                  DropScratch(), MakeGrad(0)}},
    // x.amax, as zeros where it is infinite; exp (x - that), its sum
    {.name = "logsumexp",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | Out(0))},
     .forward = {Scratch(LikeOutput), Scratch(LikeInput), MakeOut(0), Scratch(LikeOutput)},
     .backward = {Scratch(LikeInput), Scratch(LikeInput), MakeGrad(0)}},
};

}  // namespace

std::span<const OpRule> ReductionRules() { return kReductionRules; }

}  // namespace onnxfit

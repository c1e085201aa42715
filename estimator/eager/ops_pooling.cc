// Pooling and reductions.  Sources: pytorch v2.6.0 derivatives.yaml; orders from recorded
// events, torch 2.11 (the pooled values before their indices).
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

TensorType Indices(const CallTypes& call) { return {DType::kInt64, call.out(0).dims}; }

constexpr OpRule kRules[] = {
    {.name = "max_pool2d", .gradients = {Reads(In(0) | Aux(0))}, .aux = {{{"indices", Indices}}}},
    {.name = "avg_pool2d", .gradients = {Reads(In(0))}},
    // Means keep nothing; their gradient has the input's full size.
    {.name = "mean", .gradients = {Reads({})}},
    {.name = "sum", .autocast = AutocastPolicy::kFp32, .gradients = {Expands()}},
    {.name = "amax", .gradients = {Reads(In(0) | Out(0))}},
};

}  // namespace

std::span<const OpRule> PoolingRules() { return kRules; }

}  // namespace onnxfit

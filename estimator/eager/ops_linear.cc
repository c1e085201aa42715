// Matrix products.  Sources: pytorch v2.6.0 derivatives.yaml; order of gradients and of
// workspaces from recorded events, torch 2.11.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

constexpr OpRule kRules[] = {
    // x [..., k], w [n, k], b [n].  A bias takes cublasLt's way in forward; its gradient
    // is the incoming one, summed up by the engine.
    {.name = "addmm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {Reads(In(1)), Reads(In(0)), PassThrough()},
     .forward = {MakeOut(0), Uses(Workspace::kCublas), Uses(Workspace::kCublasLt)},
     .backward = {MakeGrad(0), Uses(Workspace::kCublas), MakeGrad(1), Uses(Workspace::kCublas),
                  MakeGrad(2)}},
    // Without bias, or batched: the second operand's gradient comes first.
    {.name = "mm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {MakeGrad(1), Uses(Workspace::kCublas), MakeGrad(0), Uses(Workspace::kCublas)}},
    {.name = "bmm",
     .autocast = AutocastPolicy::kLower,
     .gradients = {Reads(In(1)), Reads(In(0))},
     .forward = {MakeOut(0), Uses(Workspace::kCublas)},
     .backward = {MakeGrad(1), Uses(Workspace::kCublas), MakeGrad(0), Uses(Workspace::kCublas)}},
};

}  // namespace

std::span<const OpRule> LinearRules() { return kRules; }

}  // namespace onnxfit

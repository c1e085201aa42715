// Losses.  Sources: pytorch v2.6.0 derivatives.yaml; torch 2.11 events (the flat nll_loss
// allocates total_weight after the loss, the spatial one before it); of the mean squared error
// aten/src/ATen/native/Loss.cpp, pytorch v2.6.0.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

TensorType TotalWeight(const CallTypes& call) { return {call.in(0).dtype, {}}; }

TensorType LikePrediction(const CallTypes& call) { return call.in(0); }

constexpr OpRule kLossRules[] = {
    // Inside of cross_entropy autocast leaves it in 16 bits (torch 2.11 events).
    {.name = "_log_softmax", .gradients = {Reads(Out(0))}},
    // log-probabilities, labels
    {.name = "nll_loss",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | Aux(0))},
     .aux = {{{"total_weight", TotalWeight}}}},
    {.name = "nll_loss2d",
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1) | Aux(0))},
     .aux = {{{"total_weight", TotalWeight}}},
     .forward = {MakeAux(0), MakeOut(0)}},
    // prediction, target.  The result is made for the errors and resized to their mean's one
    // number (TORCH_META_FUNC(mse_loss)).
    {.name = "mse_loss",
     .storage = LikePrediction,
     .autocast = AutocastPolicy::kFp32,
     .gradients = {Reads(In(0) | In(1)), Reads(In(0) | In(1))},
     .forward = {MakeOut(0), Scratch(LikePrediction)}},
};

}  // namespace

std::span<const OpRule> LossRules() { return kLossRules; }

}  // namespace onnxfit

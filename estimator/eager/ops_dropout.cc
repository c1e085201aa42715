// Dropout.  Source: pytorch v2.6.0 derivatives.yaml (native_dropout); torch 2.11 events:
// the mask is made before the output.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

TensorType Mask(const CallTypes& call) { return {DType::kBool, call.outputs[0].dims}; }

constexpr OpRule kRules[] = {
    {.name = "dropout",
     .gradients = {Reads(Aux(0))},
     .aux = {{{"mask", Mask}}},
     .forward = {MakeAux(0), MakeOut(0)}},
};

}  // namespace

std::span<const OpRule> DropoutRules() { return kRules; }

}  // namespace onnxfit

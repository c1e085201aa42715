// Dropout.  Source: pytorch v2.6.0 derivatives.yaml (native_dropout); torch 2.11 events:
// the mask is made before the output; in place, the noise is in the input's dtype, and the
// gradient of what is in place on a view (a flattened tensor) goes through CopySlices.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

TensorType Mask(const CallTypes& call) { return {DType::kBool, call.out(0).dims}; }

TensorType Same(const CallTypes& call) { return call.out(0); }

constexpr OpRule kDropoutRules[] = {
    {.name = "dropout",
     .strides = AsOperands,
     .gradients = {ReadsElementwise(Aux(0))},
     .aux = {{{"mask", Mask}}},
     .forward = {MakeAux(0), MakeOut(0)}},
    {.name = "dropout_",
     .in_place = InPlace::kAlways,
     .gradients = {Reads(Aux(0))},
     .aux = {{{"noise", Same}}},
     .forward = {MakeAux(0), MakeOut(0)},
     .backward = {OverView(Scratch(Same)), OverView(DropGradient()), MakeGrad(0),
                  OverView(Scratch(Same)), OverView(Scratch(Same))}},
};

}  // namespace

std::span<const OpRule> DropoutRules() { return kDropoutRules; }

}  // namespace onnxfit

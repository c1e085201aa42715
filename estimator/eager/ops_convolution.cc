// Convolutions.  Sources: pytorch v2.6.0 tools/autograd/derivatives.yaml; orders from
// recorded events, torch 2.11.  cuDNN's workspaces are not in the trace.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

constexpr OpRule kRules[] = {
    {.name = "convolution", .gradients = {Reads(In(1)), Reads(In(0)), Reads({})}},
};

static_assert(SavedForBackward(kRules[0], In(1)) == In(0));  // x is data: w is not kept

}  // namespace

std::span<const OpRule> ConvolutionRules() { return kRules; }

}  // namespace onnxfit

// Convolutions.  Sources: pytorch v2.6.0 tools/autograd/derivatives.yaml; orders from
// recorded events, torch 2.11.  cuDNN's workspaces are not in the trace.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

// One formula makes all three gradients, so it keeps input and weight whichever is wanted.
constexpr Gradient kBackward = Reads(In(0) | In(1));

constexpr OpRule kRules[] = {
    {.name = "convolution",
     .autocast = AutocastPolicy::kLower,
     .asks_cudnn = true,
     .gradients = {ReadsAsInput(kBackward.reads), kBackward, SumsToChannels(kBackward.reads)}},
};

static_assert(SavedForBackward(kRules[0], In(1)) == (In(0) | In(1)));  // x is data

}  // namespace

std::span<const OpRule> ConvolutionRules() { return kRules; }

}  // namespace onnxfit

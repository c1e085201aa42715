// Convolutions.  Sources: pytorch v2.6.0 tools/autograd/derivatives.yaml; orders from
// recorded events, torch 2.11; where cuDNN's workspaces are, where they were measured: aten/src/
// ATen/native/cudnn/Conv_v8.cpp, pytorch v2.6.0.
#include "estimator/eager/op_families.h"

namespace onnxfit {
namespace {

// One formula makes all three gradients, so it keeps input and weight whichever is wanted.
constexpr Gradient kConvolutionBackward = Reads(In(0) | In(1));

constexpr OpRule kConvolutionRules[] = {
    {.name = "convolution",
     .autocast = AutocastPolicy::kLower,
     .asks_cudnn = true,
     .gradients = {ReadsAsInput(kConvolutionBackward.reads), kConvolutionBackward,
                   SumsToChannels(kConvolutionBackward.reads)},
     .forward = {MakeOut(0), Uses(Workspace::kCudnnForward)},
     .backward = {MakeGrad(0), Uses(Workspace::kCudnnDataGradient), MakeGrad(1),
                  Uses(Workspace::kCudnnWeightGradient), MakeGrad(2)}},
};

static_assert(SavedForBackward(kConvolutionRules[0], In(1)) == (In(0) | In(1)));  // x is data

}  // namespace

std::span<const OpRule> ConvolutionRules() { return kConvolutionRules; }

}  // namespace onnxfit

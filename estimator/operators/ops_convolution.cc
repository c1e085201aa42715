// Convolutions: what PyTorch makes contiguous for the kernel that it takes.  Sources: _convolution
// and convolution_backward of aten/src/ATen/native/Convolution.cpp, native/cudnn/ConvShared.cpp,
// native/cuda/DepthwiseConv2d.cu, pytorch v2.11.0; orders as recorded on an H200.
#include "estimator/operators/cudnn_convolutions.h"
#include "estimator/operators/layouts.h"
#include "estimator/operators/op_rule.h"

namespace onnxfit {
namespace {

bool CudnnConvolves(const CallTypes& call) {
  return AsksCudnn(call.in(0), call.in(1), call.out(0), call.ints());
}

// Of one dimension, x is made contiguous before it is seen as a picture of height 1.
MemoryFormat FormatOf(const CallTypes& call) {
  return CudnnConvolves(call) ? CudnnFormat(call.in(0), call.in(1)) : MemoryFormat::kContiguous;
}

Dims AsConvolved(const CallTypes& call) { return StridesIn(FormatOf(call), call.out(0).dims); }
TensorType InputCopy(const CallTypes& call) { return CopyUnlessIn(FormatOf(call), call.in(0)); }
TensorType WeightCopy(const CallTypes& call) { return CopyUnlessIn(FormatOf(call), call.in(1)); }

// cudnn_convolution_backward, or that of a transposed one.
void CudnnBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  const StridedType& gradient = types.incoming_gradient();
  const bool is_row = types.in(0).dims.size() == 3;
  const bool copies_input = is_row || kernel.IsWanted(1);
  if (copies_input) kernel.Take(InputCopy(types));
  const MemoryFormat format = copies_input ? FormatOf(types) : SuggestedFormat(types.in(0));
  kernel.Take(CopyUnlessIn(format, gradient));
  if (kernel.IsWanted(0)) {
    kernel.MakeGrad(0, StridesIn(format, types.in(0).dims));
    const int weight = kernel.Take(CopyUnlessIn(format, types.in(1)));
    kernel.Use(Workspace::kCudnnDataGradient);
    kernel.Free(weight);
  }
  if (kernel.IsWanted(1)) {
    kernel.MakeGrad(1, StridesIn(format, types.in(1).dims));
    kernel.Use(Workspace::kCudnnWeightGradient);
  }
  kernel.MakeGrad(2);
}

// The weight's gradient comes first.
void DepthwiseBackward(Kernel& kernel) {
  const CallTypes& types = kernel.types();
  kernel.Take(DenseGradient(types));
  if (kernel.IsWanted(1)) {
    const int input = kernel.Take(DenseInput<0>(types));
    kernel.MakeGrad(1);
    kernel.Free(input);
  }
  kernel.MakeGrad(0);
  kernel.MakeGrad(2);
}

void ConvolutionBackward(Kernel& kernel) {
  return CudnnConvolves(kernel.types()) ? CudnnBackward(kernel) : DepthwiseBackward(kernel);
}

// One formula makes all three gradients (tools/autograd/derivatives.yaml), so it keeps input and
// weight whichever is wanted.
constexpr Slots kKept = In(0) | In(1);

constexpr OpRule kConvolutionRules[] = {
    {.name = "convolution",
     .strides = AsConvolved,
     .autocast = AutocastPolicy::kLower,
     .asks_cudnn = true,
     .gradients = {Reads(kKept), Reads(kKept), SumsToChannels(kKept)},
     .forward = {Scratch(InputCopy), MakeOut(0), Scratch(WeightCopy),
                 Uses(Workspace::kCudnnForward)},
     .run_backward = ConvolutionBackward},
};

static_assert(SavedForBackward(kConvolutionRules[0], In(1)) == kKept);  // x is data

}  // namespace

std::span<const OpRule> ConvolutionRules() { return kConvolutionRules; }

}  // namespace onnxfit

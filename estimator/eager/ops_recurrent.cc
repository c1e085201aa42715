// Recurrent layers: an upper bound of what cuDNN and PyTorch's own kernels keep.  Sources: pytorch
// v2.11.0, aten/src/ATen/native/RNN.cpp, native/cuda/RNN.cu, native/cudnn/RNN.cpp; what a step
// keeps is in program/recurrent_layers.h.
#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/eager/op_rule.h"

namespace onnxfit {
namespace {

constexpr size_t kKept = 0;   // of ints
constexpr size_t kGates = 1;  // of ints

TensorType OfInt(const CallTypes& call, size_t i) {
  return {call.in(0).dtype, {i < call.ints().size() ? call.ints()[i] : 0}};
}

// Gates, cells and hidden states of each step.
TensorType KeptStates(const CallTypes& call) { return OfInt(call, kKept); }

// cuDNN's workspace: the gates of each step before they are added up.
TensorType GatesOfSteps(const CallTypes& call) { return OfInt(call, kGates); }

// In backward cuDNN has a workspace of the gates' gradients; PyTorch's own kernels have the
// gradient of x in steps before they stack it, and a weight's, which they add to the sum.
TensorType GradientsOfSteps(const CallTypes& call) {
  int64_t weight = 0;
  for (size_t i = 1; i < call.input_count(); ++i) {
    if (call.has_input(i)) weight = std::max(weight, Numel(call.in(i).dims));
  }
  const int64_t own = CheckedAdd(Numel(call.in(0).dims), weight);
  TensorType type = GatesOfSteps(call);
  type.dims[0] = std::max(type.dims[0], own);
  return type;
}

void BackwardThroughTime(Kernel& kernel) {
  const CallTypes& call = kernel.types();
  kernel.Take(GradientsOfSteps(call));
  for (size_t i = 1; i < call.input_count(); ++i) kernel.MakeGrad(static_cast<int>(i));
  kernel.MakeGrad(0);
}

// Under autocast the weights are cast too, and those copies are kept.
constexpr Gradient kThroughTime = Reads(In(0) | In(1) | In(2) | In(3) | In(4) | In(5) | In(6) |
                                        In(7) | In(8) | In(9) | In(10) | In(11) | Aux(0));

constexpr OpRule TrainedRow(std::string_view name) {
  return {.name = name,
          .autocast = AutocastPolicy::kLower,
          .variadic = true,
          .gradients = {kThroughTime},
          .aux = {{{"gates and states", KeptStates}}},
          .run_backward = BackwardThroughTime};
}

constexpr OpRule InferenceRow(std::string_view name) {
  return {.name = name,
          .autocast = AutocastPolicy::kLower,
          .variadic = true,
          .gradients = {Reads({})},
          .forward = {Scratch(GatesOfSteps)}};
}

constexpr OpRule kRecurrentRules[] = {
    TrainedRow("lstm"),
    TrainedRow("gru"),
    TrainedRow("rnn"),
    InferenceRow("lstm_inference"),
    InferenceRow("gru_inference"),
    InferenceRow("rnn_inference"),
};

}  // namespace

std::span<const OpRule> RecurrentRules() { return kRecurrentRules; }

}  // namespace onnxfit

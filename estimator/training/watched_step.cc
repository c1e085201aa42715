#include "estimator/training/watched_step.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// What a step does itself, the loop does not.
TrainingSettings SettingsOf(const StepOptimizer& optimizer, TrainingSettings settings) {
  if (!optimizer.groups.empty()) settings.optimizer = optimizer.groups[0].optimizer;
  settings.optimizer_impl.reset();
  settings.clip_grad = false;
  settings.ema = false;
  return settings;
}

}  // namespace

WatchedStep::WatchedStep(CallTable& calls, Forward& forward, ParameterGradients& gradients,
                         const BackwardHooks& hooks, const TrainingSettings& settings)
    : program_(calls.program()),
      calls_(calls),
      machine_(calls.machine()),
      forward_(forward),
      gradients_(gradients),
      hooks_(hooks),
      index_of_(program_.values.size()) {
  for (size_t i = 0; i < program_.parameters.size(); ++i)
    index_of_[Index(program_.parameters[i])] = i;
  for (const StepOptimizer& optimizer : program_.optimizers) {
    settings_.push_back(SettingsOf(optimizer, settings));
    optimizers_.emplace_back(calls, settings_.back(), gradients, optimizer);
  }
  forward.HookCalls({.before =
                         [this](int32_t call, bool again) {
                           if (!again) Before(call);
                         },
                     .after =
                         [this](int32_t call, bool again) {
                           if (!again) After(call);
                         }});
}

void WatchedStep::Construct() {
  for (OptimizerStep& optimizer : optimizers_) optimizer.Construct();
}

void WatchedStep::Begin(int32_t step) {
  step_ = step;
  machine_.EnterPhase(step, phase_ = Phase::kForward);
}

void WatchedStep::Enter(Phase phase) {
  if (std::exchange(phase_, phase) != phase) machine_.EnterPhase(step_, phase);
}

// A module that runs behind a backward pass begins another forward pass.
void WatchedStep::Before(int32_t index) {
  const AtenCall& call = calls_.call(index);
  if (call.action < 0) {
    const bool is_in_module = program_.modules.DepthOf(call.module) > 1;
    if (is_in_module) Enter(Phase::kForward);
    return;
  }
  const StepAction& action = program_.actions[Index(call.action)];
  if (action.kind == StepAction::Kind::kBackward) Enter(Phase::kBackward);
  if (action.kind == StepAction::Kind::kStep) Enter(Phase::kOptimizer);
  machine_.EnterOperator(calls_.OperatorLabel(index));
  Play(action, call);
}

void WatchedStep::After(int32_t index) {
  for (const NameId parameter : calls_.call(index).drops) {
    if (const auto index = IndexOf(parameter)) gradients_.Drop(*index, machine_);
  }
}

void WatchedStep::Play(const StepAction& action, const AtenCall& call) {
  switch (action.kind) {
    case StepAction::Kind::kNothing:
      return;
    case StepAction::Kind::kBackward:
      return GoBackward(action, call);
    case StepAction::Kind::kStep:
      return optimizers_[action.optimizer].Run();
    case StepAction::Kind::kNorm: {
      const TensorId norm = NormOfGradients(calls_, gradients_, IndicesOf(action.parameters));
      if (norm != kNoTensor) forward_.Bind(call.outputs[0], norm);
      return;
    }
    case StepAction::Kind::kClip:
      return ScaleToNorm(calls_, calls_.TypeOf(call.inputs[0]).dtype);
    case StepAction::Kind::kAskGradients:
    case StepAction::Kind::kAskNone:
      for (const NameId parameter : action.parameters)
        forward_.AskForGradientsOf(parameter, action.kind == StepAction::Kind::kAskGradients);
      return;
    case StepAction::Kind::kSetData:
      return SetData(forward_.Lookup(call.inputs[0]), forward_.Lookup(call.inputs[1]));
  }
}

// What holds the storage is what held the other one.
void WatchedStep::SetData(TensorId tensor, TensorId data) {
  if (tensor == kNoTensor || data == kNoTensor) return;
  machine_.SetKind(data, machine_.kind(tensor));
  machine_.SetData(tensor, data);
}

// A root without a history has nothing to train: PyTorch raises, unless there are others.
void WatchedStep::GoBackward(const StepAction& action, const AtenCall& call) {
  BackwardRoots roots = {.tensors = {}, .gradients = {}, .keeps_graph = action.keeps_graph};
  const size_t count = call.inputs.size() / 2;
  for (size_t i = 0; i < count; ++i) {
    const TensorId root = forward_.Lookup(call.inputs[i]);
    if (root == kNoTensor || machine_.tensor(root).grad_fn.node == kNoGradNode) continue;
    const NameId given = call.inputs[count + i];
    roots.tensors.push_back(root);
    roots.gradients.push_back(given == kNoName ? kNoTensor : forward_.Lookup(given));
  }
  if (!roots.tensors.empty()) RunBackward(calls_, roots, gradients_, hooks_);
  BindGradients(action, call);
}

// The names by which later calls read gradients.
void WatchedStep::BindGradients(const StepAction& action, const AtenCall& call) {
  for (size_t i = 0; i < call.outputs.size() && i < action.parameters.size(); ++i) {
    const auto parameter = IndexOf(action.parameters[i]);
    if (call.outputs[i] == kNoName || !parameter || !gradients_.Has(*parameter)) continue;
    machine_.Retain(gradients_.at(*parameter));
    forward_.Bind(call.outputs[i], gradients_.at(*parameter));
  }
}

std::vector<size_t> WatchedStep::IndicesOf(const std::vector<NameId>& parameters) const {
  std::vector<size_t> indices;
  for (const NameId parameter : parameters) {
    if (const auto index = IndexOf(parameter)) indices.push_back(*index);
  }
  return indices;
}

}  // namespace onnxfit

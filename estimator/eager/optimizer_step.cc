#include "estimator/eager/optimizer_step.h"

#include <string>
#include <utility>

#include "estimator/base/index.h"

namespace onnxfit {

OptimizerStep::OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                             const ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      settings_(settings),
      gradients_(gradients),
      rule_(FindOptimizerRule(settings.optimizer)),
      states_(gradients.size()) {}

void OptimizerStep::Construct() {
  if (rule_.state_at_construction) MakeStates(/*with_gradient=*/false);
}

TensorId OptimizerStep::NewScalar(const char* name, Kind kind) {
  return machine_.New({DType::kFloat32, {}}, machine_.AddLabel(name), kind);
}

// Its two scalars are made at the first call.
TensorId OptimizerStep::ScaleLoss() {
  if (!scales()) return kNoTensor;
  if (!scaler_made_) {
    NewScalar("GradScaler.scale", Kind::kBuffer);
    NewScalar("GradScaler.growth_tracker", Kind::kBuffer);
    scaler_made_ = true;
  }
  return NewScalar("GradScaler.scaled_loss");
}

void OptimizerStep::Run() {
  const TensorId found_inf = scales() ? NewScalar("GradScaler.found_inf") : kNoTensor;
  Step();
  if (found_inf != kNoTensor) machine_.Release(found_inf);
}

void OptimizerStep::Step() {
  MakeStates(/*with_gradient=*/true);
  for (int list = 0; list < rule_.lists; ++list) {
    for (size_t i = 0; i < gradients_.size(); ++i) {
      if (gradients_.Has(i)) temporaries_.push_back(NewLikeParameter(i));
    }
  }
  ReleaseTemporaries();
  for (size_t i = 0; i < gradients_.size(); ++i) {
    for (int k = 0; k < rule_.singles && gradients_.Has(i); ++k) {
      temporaries_.push_back(NewLikeParameter(i));
    }
    ReleaseTemporaries();
  }
}

void OptimizerStep::ReleaseTemporaries() {
  for (const TensorId tensor : std::exchange(temporaries_, {})) machine_.Release(tensor);
}

TensorId OptimizerStep::NewLikeParameter(size_t parameter) {
  if (temporary_label_ < 0) temporary_label_ = machine_.AddLabel("optimizer temporary");
  return machine_.New(ParameterType(parameter), temporary_label_);
}

// State of each parameter that has none yet and, unless the optimizer makes it at
// construction, has a gradient.
void OptimizerStep::MakeStates(bool with_gradient) {
  if (rule_.shared_bytes > 0 && !shared_made_) MakeShared();
  for (size_t i = 0; i < states_.size(); ++i) {
    if (!states_[i].empty() || (with_gradient && !gradients_.Has(i))) continue;
    for (const StateTensor& state : rule_.states) MakeState(i, state);
  }
}

void OptimizerStep::MakeShared() {
  shared_made_ = true;
  const LabelId label = machine_.AddLabel("quantization tables");
  machine_.New({DType::kUint8, {rule_.shared_bytes}}, label, Kind::kOptimizerState);
}

void OptimizerStep::MakeState(size_t parameter, const StateTensor& state) {
  if (state.type == nullptr) return;
  const TensorType type = state.type(ParameterType(parameter));
  if (type.dtype == DType::kUndefined) return;
  const std::string& name = calls_.program().values[ParameterName(parameter)].name;
  const LabelId label = machine_.AddLabel(name + "." + std::string(state.name));
  states_[parameter].push_back(machine_.New(type, label, Kind::kOptimizerState));
}

size_t OptimizerStep::ParameterName(size_t parameter) const {
  return Index(calls_.program().parameters[parameter]);
}

const TensorType& OptimizerStep::ParameterType(size_t parameter) const {
  return calls_.program().values[ParameterName(parameter)].type;
}

}  // namespace onnxfit

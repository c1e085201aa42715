#include "estimator/eager/training.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/eager/optimizer_rule.h"

namespace onnxfit {
namespace {

class Training {
 public:
  Training(const Program& program, const TrainingSettings& settings, Trace& trace, HolderLog* log)
      : program_(program),
        settings_(settings),
        machine_(trace),
        calls_(program, machine_),
        forward_(calls_, settings),
        optimizer_(FindOptimizerRule(settings.optimizer)),
        gradients_(program.parameters.size()),
        states_(program.parameters.size()) {
    if (log != nullptr) machine_.RecordInto(*log);
  }

  void Run() {
    machine_.EnterPhase(0, Phase::kSetup);
    PlaceModel();
    if (has_backward() && optimizer_.state_at_construction) MakeStates(/*with_gradient=*/false);
    for (int32_t step = 1; step <= settings_.steps; ++step) {
      machine_.EnterPhase(step, Phase::kForward);
      has_backward() ? TrainingStep(step) : InferenceStep();
    }
  }

 private:
  bool has_backward() const { return settings_.mode == Mode::kTrain && program_.loss != kNoName; }

  // model.to("cuda").
  void PlaceModel() {
    std::unordered_map<NameId, int32_t> parameters;
    for (size_t i = 0; i < program_.parameters.size(); ++i) {
      parameters[program_.parameters[i]] = static_cast<int32_t>(i);
    }
    for (const NameId name : program_.placement) {
      const auto parameter = parameters.find(name);
      if (parameter == parameters.end()) {
        forward_.Bind(name, NewNamed(name, Kind::kBuffer));
      } else {
        forward_.BindParameter(parameter->second, NewNamed(name, Kind::kParameter));
      }
    }
  }

  void TrainingStep(int32_t step) {
    NewBatch();
    gradients_.Clear(machine_);
    forward_.RunAll(/*grad=*/true);
    const TensorId loss = forward_.Lookup(program_.loss);
    machine_.EnterPhase(step, Phase::kBackward);
    const TensorId scaled = ScaleLoss();
    if (machine_.tensor(loss).grad_fn.node != kNoGradNode) {
      RunBackward(calls_, loss, gradients_);
    }
    if (scaled != kNoTensor) machine_.Release(scaled);
    machine_.EnterPhase(step, Phase::kOptimizer);
    const TensorId found_inf = scales() ? NewScalar("GradScaler.found_inf") : kNoTensor;
    OptimizerStep();
    if (found_inf != kNoTensor) machine_.Release(found_inf);
  }

  void InferenceStep() {
    NewBatch();
    forward_.RunAll(/*grad=*/false);
  }

  // All of the new batch is there before the names of the old one are bound again.
  void NewBatch() {
    std::vector<TensorId> batch;
    for (const NameId name : program_.inputs) batch.push_back(NewNamed(name, Kind::kInput));
    for (size_t i = 0; i < batch.size(); ++i) {
      machine_.Retain(batch[i]);
      forward_.Bind(program_.inputs[i], batch[i]);
    }
    for (const TensorId old : std::exchange(batch_, batch)) machine_.Release(old);
  }

  bool scales() const { return settings_.precision == Precision::kAmpFp16; }

  TensorId NewScalar(const char* name, Kind kind = Kind::kTemporary) {
    return machine_.New({DType::kFloat32, {}}, machine_.AddLabel(name), kind);
  }

  // GradScaler.scale(loss): its two scalars are made at the first call.
  TensorId ScaleLoss() {
    if (!scales()) return kNoTensor;
    if (!scaler_made_) {
      NewScalar("GradScaler.scale", Kind::kBuffer);
      NewScalar("GradScaler.growth_tracker", Kind::kBuffer);
      scaler_made_ = true;
    }
    return NewScalar("GradScaler.scaled_loss");
  }

  void OptimizerStep() {
    MakeStates(/*with_gradient=*/true);
    for (int list = 0; list < optimizer_.lists; ++list) {
      for (size_t i = 0; i < gradients_.size(); ++i) {
        if (gradients_.Has(i)) temporaries_.push_back(NewLikeParameter(i));
      }
    }
    ReleaseTemporaries();
    for (size_t i = 0; i < gradients_.size(); ++i) {
      for (int k = 0; k < optimizer_.singles && gradients_.Has(i); ++k) {
        temporaries_.push_back(NewLikeParameter(i));
      }
      ReleaseTemporaries();
    }
  }

  void ReleaseTemporaries() {
    for (const TensorId tensor : std::exchange(temporaries_, {})) machine_.Release(tensor);
  }

  TensorId NewLikeParameter(size_t parameter) {
    if (temporary_label_ < 0) temporary_label_ = machine_.AddLabel("optimizer temporary");
    return machine_.New(ParameterType(parameter), temporary_label_);
  }

  // State of each parameter that has none yet and, unless the optimizer makes it at
  // construction, has a gradient.
  void MakeStates(bool with_gradient) {
    if (optimizer_.shared_bytes > 0 && !shared_made_) MakeShared();
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].empty() || (with_gradient && !gradients_.Has(i))) continue;
      for (const StateTensor& state : optimizer_.states) MakeState(i, state);
    }
  }

  void MakeShared() {
    shared_made_ = true;
    const LabelId label = machine_.AddLabel("quantization tables");
    machine_.New({DType::kUint8, {optimizer_.shared_bytes}}, label, Kind::kOptimizerState);
  }

  void MakeState(size_t parameter, const StateTensor& state) {
    if (state.type == nullptr) return;
    const TensorType type = state.type(ParameterType(parameter));
    if (type.dtype == DType::kUndefined) return;
    const std::string& name = program_.values[ParameterName(parameter)].name;
    const LabelId label = machine_.AddLabel(name + "." + std::string(state.name));
    states_[parameter].push_back(machine_.New(type, label, Kind::kOptimizerState));
  }

  TensorId NewNamed(NameId name, Kind kind) {
    return machine_.New(program_.values[Index(name)].type, calls_.NameLabel(name), kind);
  }

  size_t ParameterName(size_t parameter) const {
    return static_cast<size_t>(program_.parameters[parameter]);
  }

  const TensorType& ParameterType(size_t parameter) const {
    return program_.values[ParameterName(parameter)].type;
  }

  const Program& program_;
  const TrainingSettings& settings_;
  Machine machine_;
  CallTable calls_;
  Forward forward_;
  const OptimizerRule& optimizer_;
  ParameterGradients gradients_;
  std::vector<std::vector<TensorId>> states_;  // by parameter
  std::vector<TensorId> batch_;                // what the loop's x and y hold
  std::vector<TensorId> temporaries_;
  LabelId temporary_label_ = -1;
  bool shared_made_ = false;
  bool scaler_made_ = false;
};

}  // namespace

Trace RunTraining(const Program& program, const TrainingSettings& settings, Holders* holders) {
  Trace trace;
  std::optional<HolderLog> log;
  if (holders != nullptr) log.emplace(trace, *holders);
  Training(program, settings, trace, log ? &*log : nullptr).Run();
  return trace;
}

}  // namespace onnxfit

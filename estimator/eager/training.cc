#include "estimator/eager/training.h"

#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/eager/optimizer_step.h"

namespace onnxfit {
namespace {

class Training {
 public:
  Training(const Program& program, const TrainingSettings& settings, Trace& trace)
      : program_(program),
        settings_(settings),
        machine_(trace),
        calls_(program, machine_),
        forward_(calls_, settings),
        gradients_(program.parameters.size()),
        optimizer_(calls_, settings, gradients_) {}

  void Run() {
    machine_.EnterPhase(0, Phase::kSetup);
    PlaceModel();
    if (has_backward()) optimizer_.Construct();
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
    const TensorId scaled = optimizer_.ScaleLoss();
    if (machine_.tensor(loss).grad_fn.node != kNoGradNode) {
      RunBackward(calls_, loss, gradients_);
    }
    if (scaled != kNoTensor) machine_.Release(scaled);
    machine_.EnterPhase(step, Phase::kOptimizer);
    optimizer_.Run();
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

  TensorId NewNamed(NameId name, Kind kind) {
    return machine_.New(program_.values[Index(name)].type, calls_.NameLabel(name), kind);
  }

  const Program& program_;
  const TrainingSettings& settings_;
  Machine machine_;
  CallTable calls_;
  Forward forward_;
  ParameterGradients gradients_;
  OptimizerStep optimizer_;
  std::vector<TensorId> batch_;  // what the loop's x and y hold
};

}  // namespace

Trace RunTraining(const Program& program, const TrainingSettings& settings) {
  Trace trace;
  Training(program, settings, trace).Run();
  return trace;
}

}  // namespace onnxfit

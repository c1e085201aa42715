// A whole step that was watched: what it does between its calls (Program::actions).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/forward.h"
#include "estimator/optimizers/optimizer_step.h"

namespace onnxfit {

class WatchedStep {
 public:
  // All must outlive it.  From now on `forward` plays the actions where it comes to them.
  WatchedStep(CallTable& calls, Forward& forward, ParameterGradients& gradients,
              const BackwardHooks& hooks, const TrainingSettings& settings);

  // What the optimizers make before the first step.
  void Construct();

  // From now on it is step `step` of the loop.
  void Begin(int32_t step);

 private:
  void Before(int32_t call);
  void After(int32_t call);
  void Play(const StepAction& action, const AtenCall& call);
  void GoBackward(const StepAction& action, const AtenCall& call);
  void SetData(TensorId tensor, TensorId data);
  void BindGradients(const StepAction& action, const AtenCall& call);
  void Enter(Phase phase);
  // Of a parameter that is trained, its index; nullopt of others.
  std::optional<size_t> IndexOf(NameId parameter) const { return index_of_[Index(parameter)]; }
  std::vector<size_t> IndicesOf(const std::vector<NameId>& parameters) const;

  const Program& program_;
  CallTable& calls_;
  Machine& machine_;
  Forward& forward_;
  ParameterGradients& gradients_;
  const BackwardHooks& hooks_;
  std::deque<TrainingSettings> settings_;  // by optimizer
  std::deque<OptimizerStep> optimizers_;
  std::vector<std::optional<size_t>> index_of_;  // by name
  int32_t step_ = 0;
  Phase phase_ = Phase::kForward;
};

}  // namespace onnxfit

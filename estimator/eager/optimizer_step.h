// What happens to the parameters between backward and the next batch:
//   scaler.unscale_(optimizer); clip_grad_norm_(model.parameters(), 1.0)   # clip_grad
//   scaler.step(optimizer); scaler.update()     # optimizer.step() without a scaler
//   ema.update_parameters(model)                # ema
// Parameters are taken to be of one dtype, as model.to(dtype) leaves them: PyTorch makes
// lists for each.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/averaged_model.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/grad_scaler.h"
#include "estimator/eager/optimizer_rule.h"

namespace onnxfit {

class OptimizerStep {
 public:
  // All must outlive the object.  Throws Error where the optimizer has no implementation
  // of that kind.
  OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                const ParameterGradients& gradients);

  // What is made before the first step: states of some optimizers, the averaged model.
  void Construct();

  // scaler.scale(loss), whose result the caller owns; kNoTensor without a scaler.
  TensorId ScaleLoss() { return scaler_.Scale(); }

  // All of the above, once.
  void Run();

 private:
  void Step();
  std::vector<std::vector<size_t>> Groups() const;
  void MakeAllStates();
  void MakeShared();
  void MakeStates(size_t parameter);
  void MakeState(size_t parameter, const StateTensor& state);
  void Take(const UpdateStep& step, std::span<const size_t> group);
  void BindLocal(Local local, std::vector<TensorId> tensors);
  TensorId Make(const Making& making, size_t parameter);
  const TensorType& TypeOf(size_t parameter) const;

  CallTable& calls_;
  Machine& machine_;
  const TrainingSettings& settings_;
  const ParameterGradients& gradients_;
  const OptimizerRule& rule_;
  GradScaler scaler_;
  AveragedModel averaged_;
  LabelId label_;  // of temporaries
  bool shared_made_ = false;
  std::vector<bool> has_states_;  // by parameter
  std::array<std::vector<TensorId>, kLocals> locals_;
};

}  // namespace onnxfit

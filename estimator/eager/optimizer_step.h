// What happens to the parameters between backward and the next batch: optimizer.step(),
// and GradScaler's part in it.
#pragma once

#include <vector>

#include "estimator/base/settings.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/optimizer_rule.h"

namespace onnxfit {

class OptimizerStep {
 public:
  // All must outlive the object.
  OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                const ParameterGradients& gradients);

  // The optimizer's constructor: what it makes before the first step.
  void Construct();

  // scaler.scale(loss), whose result the caller owns; kNoTensor without a scaler.
  TensorId ScaleLoss();

  // scaler.step(optimizer); scaler.update().
  void Run();

 private:
  bool scales() const { return settings_.precision == Precision::kAmpFp16; }
  TensorId NewScalar(const char* name, Kind kind = Kind::kTemporary);
  void Step();
  void ReleaseTemporaries();
  TensorId NewLikeParameter(size_t parameter);
  void MakeStates(bool with_gradient);
  void MakeShared();
  void MakeState(size_t parameter, const StateTensor& state);
  size_t ParameterName(size_t parameter) const;
  const TensorType& ParameterType(size_t parameter) const;

  CallTable& calls_;
  Machine& machine_;
  const TrainingSettings& settings_;
  const ParameterGradients& gradients_;
  const OptimizerRule& rule_;
  std::vector<std::vector<TensorId>> states_;  // by parameter
  std::vector<TensorId> temporaries_;
  LabelId temporary_label_ = -1;
  bool shared_made_ = false;
  bool scaler_made_ = false;
};

}  // namespace onnxfit

// What happens to the parameters between backward and the next batch:
//   scaler.unscale_(optimizer); clip_grad_norm_(model.parameters(), 1.0)   # clip_grad
//   scaler.step(optimizer); scaler.update()     # optimizer.step() without a scaler
//   ema.update_parameters(model)                # ema
// Parameters are taken to be of one dtype, as model.to(dtype) leaves them: PyTorch makes
// lists for each.
#pragma once

#include <array>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/eager/autograd.h"
#include "estimator/eager/call_table.h"
#include "estimator/eager/machine.h"
#include "estimator/optimizers/galore_step.h"
#include "estimator/optimizers/optimizer_rule.h"
#include "estimator/optimizers/soap_step.h"

namespace onnxfit {

// torch.amp.GradScaler: the scalars by which it scales the loss and undoes that.
// Source: torch/amp/grad_scaler.py, pytorch v2.11.0, and recorded events.
// Without autocast to fp16 there is none: pass `enabled` false, and nothing happens.
class GradScaler {
 public:
  GradScaler(Machine& machine, bool enabled) : machine_(machine), enabled_(enabled) {}

  // scaler.scale(loss), whose result the caller owns; kNoTensor where there is no scaler.
  TensorId Scale();

  // scaler.unscale_(optimizer).
  void Unscale();

  // scaler.step(optimizer) before optimizer.step(), the first `optimizer` is 0; then
  // scaler.update().  Fused optimizers undo the scale in their kernels, unless Unscale did.
  void BeforeStep(bool fused, size_t optimizer);
  void AfterStep();

 private:
  TensorId New(DType dtype, const char* name, Kind kind = Kind::kTemporary);
  void CheckInf();
  void CopyToDevices(TensorId inverse, TensorId found);
  void Drop(TensorId& tensor);

  Machine& machine_;
  bool enabled_;
  bool made_ = false;
  std::vector<TensorId> found_inf_;  // of each optimizer, until update()
  TensorId sum_ = kNoTensor;         // of found_inf, and the scale: what a fused
  TensorId grad_scale_ = kNoTensor;  // optimizer is given for its step
};

// torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm), by foreach as PyTorch does
// where all gradients are on the GPU.
// Gradients are scaled in place: what is allocated are norms.  O(parameters).
// Sources: torch/nn/utils/clip_grad.py, aten/src/ATen/native/cuda/ForeachReduceOp.cu,
// pytorch v2.11.0, and recorded events of 2.11 and 2.15.
// Returns the norm, which the caller owns; kNoTensor where there are no gradients.
TensorId ClipGradNorm(CallTable& calls, const ParameterGradients& gradients);

// The two halves of it, of the gradients of some parameters, by their index.
TensorId NormOfGradients(CallTable& calls, const ParameterGradients& gradients,
                         const std::vector<size_t>& parameters);
void ScaleToNorm(CallTable& calls, DType dtype);

// torch._foreach_norm(tensors): their norms, which the caller owns.  None is empty.
// Source: aten/src/ATen/native/cuda/ForeachReduceOp.cu, pytorch v2.11.0, and recorded events.
std::vector<TensorId> ForeachNorms(CallTable& calls, const std::vector<TensorType>& tensors,
                                   LabelId label);

// The norm of their norms, stacked: both are the caller's.  None is empty.
struct NormOfNorms {
  std::vector<TensorId> norms;
  TensorId total = kNoTensor;
};
NormOfNorms TotalNorm(CallTable& calls, const std::vector<TensorType>& tensors, LabelId label);

// An exponential moving average of the parameters, kept beside the model:
//   ema = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
// made after the optimizer and before the first step, and
//   ema.update_parameters(model)
// after each.  It is a deep copy of the module: buffers too.
// Sources: torch/optim/swa_utils.py, torch/nn/parameter.py and torch/_tensor.py
// (__deepcopy__), pytorch v2.11.0, and recorded events.
class AveragedModel {
 public:
  explicit AveragedModel(CallTable& calls) : calls_(calls), machine_(calls.machine()) {}

  // The constructor.  What it makes stays until the end, as buffers.
  void Construct();

  // update_parameters: works in place; from the second time on the count of updates is
  // brought to the device.
  void Update();

 private:
  CallTable& calls_;
  Machine& machine_;
  bool updated_ = false;
};

// The implementation that the loop asks its optimizer for: that of the settings; the tutorial's
// optimizers, of one parameter each, have foreach=False; libraries that run the loop have their own
// defaults.  nullopt: PyTorch's choice.
std::optional<OptimizerImpl> AskedImpl(const TrainingSettings& settings);

// The one that runs then.  Throws Error where the optimizer has no such implementation.
OptimizerImpl ImplOf(const TrainingSettings& settings);

// By index into program.parameters: whether the loop has its states in 32 bits, where the
// optimizer's are in 8.  O(calls).
std::vector<bool> AreStatesIn32Bits(const Program& program, const TrainingSettings& settings);

// The whole.
class OptimizerStep {
 public:
  // All must outlive the object.  Throws Error where the optimizer has no implementation
  // of that kind.
  OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                const ParameterGradients& gradients);

  // The same of an optimizer object that a watched step has, in place of that of `settings`.
  OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                const ParameterGradients& gradients, const StepOptimizer& told);

  // Steps these parameters alone, in that order: a rank's share of them.
  void StepOnly(const std::vector<size_t>& parameters);

  // Sees these in place of the parameters, by their index: a rank's parts of them.
  void StepShards(std::vector<TensorType> shards) { shards_ = std::move(shards); }

  // What is made before the first step: states of some optimizers, the averaged model.
  void Construct();

  // scaler.scale(loss), whose result the caller owns; kNoTensor without a scaler.
  TensorId ScaleLoss() { return scaler_.Scale(); }

  // All of the above, once; in backward alone what comes after the steps.
  void Run();

  // What a hook does with one parameter when its gradient is there (optimizer_in_backward):
  //   optimizer_of[p].step()
  // Source: "How to save memory by fusing the optimizer step into the backward pass",
  // docs.pytorch.org/tutorials.  O(parameters).
  void RunOf(size_t parameter);

 private:
  using Parameters = std::vector<size_t>;

  // Parameters that are stepped alike.
  struct Group {
    const OptimizerRule* rule;
    Parameters parameters;
  };
  using Part = std::vector<Group>;  // an optimizer, which steps one group after the other

  OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                const ParameterGradients& gradients, std::vector<Part> parts);
  static std::vector<Part> PartsOf(const Program& program, const TrainingSettings& settings);
  static std::vector<Part> PartsOf(const Program& program, const StepOptimizer& told,
                                   const FrameworkProfile& framework);
  void Clip();
  TensorId NormOfAll(const Part& part);
  void StepGroup(const Group& group);
  void StepSparse(const OptimizerRule& rule, const Parameters& group);
  void ReturnFromStep();
  bool IsSparse(size_t parameter) const;  // its gradient is
  std::vector<Parameters> RunTogether(const OptimizerRule& rule, const Parameters& group) const;
  bool MakeAllStates(const OptimizerRule& rule, const Parameters& group);
  void MakeStates(const OptimizerRule& rule, size_t parameter);
  void MakeState(size_t parameter, const StateTensor& state);
  void Keep(const Making& making, size_t parameter);
  void Take(const OptimizerRule& rule, const UpdateStep& step, std::span<const size_t> group);
  std::vector<TensorType> TypesOf(std::span<const size_t> group, TypeForParameter type) const;
  void BindLocal(Local local, std::vector<TensorId> tensors);
  TensorId Make(const Making& making, size_t parameter);
  const std::string& NameOf(size_t parameter) const;
  const TensorType& TypeOf(size_t parameter) const;

  CallTable& calls_;
  Machine& machine_;
  const TrainingSettings& settings_;
  const ParameterGradients& gradients_;
  std::vector<Part> parts_;
  std::vector<bool> in_32_bits_;  // by parameter
  GradScaler scaler_;
  AveragedModel averaged_;
  LabelId label_;  // of temporaries
  Soap soap_;
  GaLore galore_;
  TensorId norm_ = kNoTensor;               // of the gradients, where the loop holds it
  std::set<std::string_view> shared_made_;  // names of states
  std::vector<bool> has_states_;            // by parameter
  std::vector<TensorId> kept_;              // by parameter: what a step left in its state
  std::vector<TensorType> shards_;          // by parameter; empty: the parameters themselves
  std::array<std::vector<TensorId>, kLocals> locals_;
};

}  // namespace onnxfit

#include "estimator/eager/optimizer_step.h"

#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/eager/clip_grad.h"
#include "estimator/eager/strides.h"
#include "estimator/eager/sum_scratch.h"

namespace onnxfit {
namespace {

// A norm or a mean of a tensor of that type.
SumShape SumOf(const TensorType& type, Reduced reduced) {
  const size_t summed = type.dims.size() - (reduced == Reduced::kLast ? 1 : 2);
  const uint64_t kept = reduced == Reduced::kAll ? 0 : ~(uint64_t{1} << summed);
  return SumOver(type.dtype, type.dims, ContiguousStrides(type.dims), kept);
}

}  // namespace

OptimizerStep::OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                             const ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      settings_(settings),
      gradients_(gradients),
      rule_(FindOptimizerRule(settings.optimizer, settings.optimizer_impl, settings.framework)),
      scaler_(machine_, settings.precision == Precision::kAmpFp16),
      averaged_(calls),
      label_(machine_.AddLabel("optimizer temporary")),
      has_states_(gradients.size()) {}

void OptimizerStep::Construct() {
  if (rule_.states_made == StatesMade::kConstruction) {
    for (size_t i = 0; i < gradients_.size(); ++i) MakeStates(i);
  }
  if (settings_.ema) averaged_.Construct();
}

void OptimizerStep::Run() {
  if (settings_.clip_grad) {
    scaler_.Unscale();
    ClipGradNorm(calls_, gradients_);
  }
  scaler_.BeforeStep(rule_.impl == OptimizerImpl::kFused);
  Step();
  scaler_.AfterStep();
  if (settings_.ema) averaged_.Update();
}

void OptimizerStep::Step() {
  if (rule_.states_made == StatesMade::kFirstStep) MakeAllStates();
  for (const std::vector<size_t>& group : Groups()) {
    if (rule_.states_made == StatesMade::kWithUpdate) MakeStates(group[0]);
    for (const UpdateStep& step : rule_.steps) Take(step, group);
  }
  for (size_t local = 0; local < kLocals; ++local) BindLocal(static_cast<Local>(local), {});
}

// The parameters that have a gradient, in those groups for which the statements of a step
// run: all at once, matrices and vectors, or one at a time.
std::vector<std::vector<size_t>> OptimizerStep::Groups() const {
  std::vector<std::vector<size_t>> groups;
  std::unordered_map<size_t, size_t> known;
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_.Has(i)) continue;
    const bool is_matrix = rule_.matrices_apart && TypeOf(i).dims.size() > 1;
    const size_t key = rule_.impl == OptimizerImpl::kForLoop ? i : size_t{is_matrix};
    const auto [group, is_new] = known.emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(i);
  }
  return groups;
}

void OptimizerStep::MakeAllStates() {
  if (rule_.shared_bytes > 0 && !std::exchange(shared_made_, true)) MakeShared();
  for (size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_.Has(i)) MakeStates(i);
  }
}

void OptimizerStep::MakeShared() {
  const LabelId label = machine_.AddLabel("quantization tables");
  machine_.New({DType::kUint8, {rule_.shared_bytes}}, label, Kind::kOptimizerState);
}

void OptimizerStep::MakeStates(size_t parameter) {
  if (has_states_[parameter]) return;
  has_states_[parameter] = true;
  for (const StateTensor& state : rule_.states) MakeState(parameter, state);
}

void OptimizerStep::MakeState(size_t parameter, const StateTensor& state) {
  if (state.type == nullptr) return;
  const TensorType type = state.type(TypeOf(parameter));
  if (type.dtype == DType::kUndefined) return;
  const NameId name = calls_.program().parameters[parameter];
  const std::string& text = calls_.program().values[Index(name)].name;
  const LabelId label = machine_.AddLabel(text + "." + std::string(state.name));
  machine_.New(type, label, Kind::kOptimizerState);
}

void OptimizerStep::Take(const UpdateStep& step, std::span<const size_t> group) {
  switch (step.type) {
    case UpdateStep::Type::kBind: {
      std::vector<TensorId> made;
      for (const size_t parameter : group) {
        const TensorId tensor = Make(step.making, parameter);
        if (tensor != kNoTensor) made.push_back(tensor);
      }
      if (!made.empty()) BindLocal(step.local, std::move(made));
      return;
    }
    case UpdateStep::Type::kAlias: {
      const std::vector<TensorId> same = locals_[static_cast<size_t>(step.from)];
      for (const TensorId tensor : same) machine_.Retain(tensor);
      return BindLocal(step.local, same);
    }
    case UpdateStep::Type::kDelete:
      return BindLocal(step.local, {});
    case UpdateStep::Type::kPass:
      for (const size_t parameter : group) {
        const TensorId tensor = Make(step.making, parameter);
        if (tensor != kNoTensor) machine_.Release(tensor);
      }
      return;
    case UpdateStep::Type::kEnd:
      return;
  }
}

// Python frees a list from its end.
void OptimizerStep::BindLocal(Local local, std::vector<TensorId> tensors) {
  auto& held = locals_[static_cast<size_t>(local)];
  const std::vector<TensorId> old = std::exchange(held, std::move(tensors));
  for (size_t i = old.size(); i-- > 0;) machine_.Release(old[i]);
}

TensorId OptimizerStep::Make(const Making& making, size_t parameter) {
  const TensorType type = making.type(TypeOf(parameter));
  if (type.dtype == DType::kUndefined) return kNoTensor;
  const TensorId tensor = machine_.New(type, label_);
  if (making.product) calls_.TakeCublasWorkspace(Thread::kForward);
  if (making.summed != nullptr) {
    const SumShape sum = SumOf(making.summed(TypeOf(parameter)), making.dim);
    PassScratch(machine_, sum, settings_.device, label_);
  }
  return tensor;
}

const TensorType& OptimizerStep::TypeOf(size_t parameter) const {
  return calls_.program().values[Index(calls_.program().parameters[parameter])].type;
}

}  // namespace onnxfit

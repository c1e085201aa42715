#include "estimator/eager/optimizer_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/eager/kernel_scratch.h"
#include "estimator/eager/strides.h"
#include "estimator/program/hidden_matrices.h"

namespace onnxfit {

// --- torch.amp.GradScaler ------------------------------------------------------

TensorId GradScaler::New(DType dtype, const char* name, Kind kind) {
  return machine_.New({dtype, {}}, machine_.AddLabel(name), kind);
}

void GradScaler::Drop(TensorId& tensor) {
  if (tensor != kNoTensor) machine_.Release(std::exchange(tensor, kNoTensor));
}

// The scale and its tracker are made at the first call.
TensorId GradScaler::Scale() {
  if (!enabled_) return kNoTensor;
  if (!std::exchange(made_, true)) {
    New(DType::kFloat32, "GradScaler.scale", Kind::kBuffer);
    New(DType::kInt32, "GradScaler.growth_tracker", Kind::kBuffer);
  }
  return New(DType::kFloat32, "GradScaler.scaled_loss");
}

// inv_scale = scale.double().reciprocal().float()
void GradScaler::Unscale() {
  if (!enabled_) return;
  TensorId scale = New(DType::kFloat64, "GradScaler.scale.double");
  TensorId reciprocal = New(DType::kFloat64, "GradScaler.inv_scale.double");
  Drop(scale);
  TensorId inverse = New(DType::kFloat32, "GradScaler.inv_scale");
  Drop(reciprocal);
  TensorId found = New(DType::kFloat32, "GradScaler.found_inf");
  CopyToDevices(inverse, found);
}

// _check_inf_per_device: the same with a scale of 1.
void GradScaler::CheckInf() {
  const TensorId inverse = New(DType::kFloat32, "GradScaler.inv_scale");
  const TensorId found = New(DType::kFloat32, "GradScaler.found_inf");
  CopyToDevices(inverse, found);
}

// _unscale_grads_: each device has a copy, the one that they were made on too.
void GradScaler::CopyToDevices(TensorId inverse, TensorId found) {
  found_inf_.push_back(New(DType::kFloat32, "GradScaler.found_inf"));
  machine_.Release(New(DType::kFloat32, "GradScaler.inv_scale"));
  machine_.Release(inverse);
  machine_.Release(found);
}

void GradScaler::BeforeStep(bool fused, size_t optimizer) {
  if (!enabled_) return;
  const bool unscaled = found_inf_.size() > optimizer;
  if (!fused) {
    if (!unscaled) Unscale();
    return;
  }
  if (!unscaled) CheckInf();
  sum_ = New(DType::kFloat32, "GradScaler.found_inf");
  if (!unscaled) grad_scale_ = New(DType::kFloat32, "GradScaler.grad_scale");
}

void GradScaler::AfterStep() {
  Drop(grad_scale_);
  Drop(sum_);
  for (TensorId& found : found_inf_) Drop(found);
  found_inf_.clear();
}

// --- torch.nn.utils.clip_grad_norm_ --------------------------------------------

namespace {

// Elements that one block of a foreach kernel takes: kChunkSize,
// aten/src/ATen/native/cuda/MultiTensorApply.cuh, pytorch v2.11.0.
constexpr int64_t kChunk = 65536;

class Clipping {
 public:
  Clipping(CallTable& calls, const ParameterGradients& gradients)
      : machine_(calls.machine()),
        with_offsets_(calls.settings().framework.norms_with_offsets),
        device_(calls.settings().device),
        label_(machine_.AddLabel("clip_grad_norm")) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients.Has(i)) continue;
      const Tensor& gradient = machine_.tensor(gradients.at(i));
      dtype_ = gradient.dtype;
      const int64_t chunks = RoundUp(Numel(gradient.dims), kChunk) / kChunk;
      most_chunks_ = std::max(most_chunks_, chunks);
      all_chunks_ = CheckedAdd(all_chunks_, chunks);
      ++count_;
    }
  }

  void Run() {
    if (count_ == 0) return;
    const TensorId total = TotalNorm();
    // max_norm / (total + 1e-6), in reciprocal and product; then the clamp.
    const TensorId sum = New(dtype_, {});
    const TensorId reciprocal = New(dtype_, {});
    const TensorId coefficient = New(dtype_, {});
    machine_.Release(reciprocal);
    machine_.Release(sum);
    const TensorId clamped = New(dtype_, {});
    for (const TensorId tensor : {coefficient, clamped, total}) machine_.Release(tensor);
  }

 private:
  TensorId New(DType dtype, Dims dims) { return machine_.New({dtype, std::move(dims)}, label_); }

  // The norm of all is the norm of the gradients' norms, stacked.
  TensorId TotalNorm() {
    const std::vector<TensorId> norms = Norms();
    const TensorId stack = New(dtype_, {count_});
    const TensorId total = New(dtype_, {});
    PassScratch(machine_, SumOver(dtype_, {count_}, {1}, /*kept=*/0), device_, label_);
    machine_.Release(stack);
    for (size_t i = norms.size(); i-- > 0;) machine_.Release(norms[i]);
    return total;
  }

  // _foreach_norm: a partial sum for each chunk.  Each gradient has as many of them as the
  // largest, or as it needs, where a table says which chunks are whose.
  std::vector<TensorId> Norms() {
    const DType accumulator = dtype_ == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const TensorId offsets = with_offsets_ ? New(DType::kInt64, {count_ + 1}) : kNoTensor;
    const int64_t chunks = with_offsets_ ? all_chunks_ : CheckedMul(count_, most_chunks_);
    const TensorId partial = New(accumulator, {chunks});
    std::vector<TensorId> norms;
    for (int64_t i = 0; i < count_; ++i) norms.push_back(New(dtype_, {}));
    machine_.Release(partial);
    if (offsets != kNoTensor) machine_.Release(offsets);
    return norms;
  }

  Machine& machine_;
  bool with_offsets_;
  const DeviceProfile& device_;
  LabelId label_;
  DType dtype_ = DType::kFloat32;
  int64_t count_ = 0;        // gradients
  int64_t most_chunks_ = 0;  // of one
  int64_t all_chunks_ = 0;
};

}  // namespace

void ClipGradNorm(CallTable& calls, const ParameterGradients& gradients) {
  Clipping(calls, gradients).Run();
}

// --- The averaged model --------------------------------------------------------

// A buffer's copy gets its own storage and, until that is set, one of a single element.
void AveragedModel::Construct() {
  const Program& program = calls_.program();
  const std::set<NameId> buffers(program.buffers.begin(), program.buffers.end());
  for (const NameId name : program.copy_order) {
    const ProgramValue& value = program.values[Index(name)];
    const LabelId label = machine_.AddLabel(value.name + ".ema");
    machine_.New(value.type, label, Kind::kBuffer);
    if (buffers.contains(name)) machine_.Release(machine_.New({value.type.dtype, {}}, label));
  }
}

void AveragedModel::Update() {
  if (!std::exchange(updated_, true)) return;
  machine_.Release(machine_.New({DType::kInt64, {}}, machine_.AddLabel("ema.n_averaged")));
}

// --- The whole step ------------------------------------------------------------

namespace {

// A norm or a mean of a tensor of that type.
SumShape SumOf(const TensorType& type, Reduced reduced) {
  const size_t summed = type.dims.size() - (reduced == Reduced::kLast ? 1 : 2);
  const uint64_t kept = reduced == Reduced::kAll ? 0 : ~(uint64_t{1} << summed);
  return SumOver(type.dtype, type.dims, ContiguousStrides(type.dims), kept);
}

}  // namespace

namespace {

// The tutorial's optimizers, of one parameter each, have foreach=False.
std::optional<OptimizerImpl> ImplOf(const TrainingSettings& settings) {
  const bool is_told = settings.optimizer_impl || settings.optimizer == Optimizer::kNone;
  if (is_told || !settings.optimizer_in_backward) return settings.optimizer_impl;
  return OptimizerImpl::kForLoop;
}

void CheckInBackward(const TrainingSettings& settings) {
  const bool scales = settings.precision == Precision::kAmpFp16;
  if (!scales && !settings.clip_grad) return;
  throw Error({.where = "--optimizer-in-backward",
               .text = fmt::format("expected no {}, which waits for all gradients",
                                   scales ? "GradScaler (-p amp-fp16)" : "--clip-grad"),
               .hint = scales ? "-p amp-bf16" : ""});
}

}  // namespace

OptimizerStep::OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                             const ParameterGradients& gradients)
    : calls_(calls),
      machine_(calls.machine()),
      settings_(settings),
      gradients_(gradients),
      parts_(PartsOf(calls.program(), settings)),
      scaler_(machine_, settings.precision == Precision::kAmpFp16),
      averaged_(calls),
      label_(machine_.AddLabel("optimizer temporary")),
      has_states_(gradients.size()),
      kept_(gradients.size(), kNoTensor) {}

std::vector<OptimizerStep::Part> OptimizerStep::PartsOf(const Program& program,
                                                        const TrainingSettings& settings) {
  if (settings.optimizer_in_backward) CheckInBackward(settings);
  const auto find = [&](Optimizer optimizer) -> const OptimizerRule& {
    return FindOptimizerRule(optimizer, ImplOf(settings), settings.framework);
  };
  const OptimizerRule& first = find(settings.optimizer);
  std::vector<Part> parts = {{first, {}}};
  const bool takes_all = first.of_others == Optimizer::kNone;
  if (!takes_all) parts.push_back({find(first.of_others), {}});
  const std::vector<bool> hidden = takes_all ? std::vector<bool>() : AreHiddenMatrices(program);
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    parts[takes_all || hidden[i] ? 0 : 1].parameters.push_back(i);
  }
  return parts;
}

void OptimizerStep::StepOnly(const std::vector<size_t>& parameters) {
  for (Part& part : parts_) {
    const std::vector<size_t> had = std::exchange(part.parameters, {});
    std::ranges::copy_if(parameters, std::back_inserter(part.parameters), [&](size_t parameter) {
      return std::ranges::find(had, parameter) != had.end();
    });
  }
}

void OptimizerStep::Construct() {
  for (const Part& part : parts_) {
    if (part.rule.states_made != StatesMade::kConstruction) continue;
    for (const size_t i : part.parameters) MakeStates(part.rule, i);
  }
  if (settings_.ema) averaged_.Construct();
}

void OptimizerStep::RunOf(size_t parameter) {
  for (const Part& part : parts_) {
    if (std::ranges::find(part.parameters, parameter) != part.parameters.end()) {
      Step({part.rule, {parameter}});
    }
  }
}

void OptimizerStep::Run() {
  if (settings_.optimizer_in_backward) {
    if (settings_.ema) averaged_.Update();
    return;
  }
  if (settings_.clip_grad) {
    for (size_t i = 0; i < parts_.size(); ++i) scaler_.Unscale();
    ClipGradNorm(calls_, gradients_);
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    scaler_.BeforeStep(parts_[i].rule.impl == OptimizerImpl::kFused, i);
    Step(parts_[i]);
  }
  scaler_.AfterStep();
  if (settings_.ema) averaged_.Update();
}

void OptimizerStep::Step(const Part& part) {
  if (part.rule.states_made == StatesMade::kFirstStep) MakeAllStates(part);
  for (const std::vector<size_t>& group : Groups(part)) {
    if (part.rule.states_made == StatesMade::kWithUpdate) MakeStates(part.rule, group[0]);
    for (const UpdateStep& step : part.rule.steps) Take(step, group);
  }
  for (size_t local = 0; local < kLocals; ++local) BindLocal(static_cast<Local>(local), {});
}

// The parameters that have a gradient, in those groups for which the statements of a step
// run: all at once, matrices and vectors, or one at a time.
std::vector<std::vector<size_t>> OptimizerStep::Groups(const Part& part) const {
  std::vector<std::vector<size_t>> groups;
  std::unordered_map<size_t, size_t> known;
  for (const size_t i : part.parameters) {
    if (!gradients_.Has(i)) continue;
    const bool is_matrix = part.rule.matrices_apart && TypeOf(i).dims.size() > 1;
    const size_t key = part.rule.impl == OptimizerImpl::kForLoop ? i : size_t{is_matrix};
    const auto [group, is_new] = known.emplace(key, groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(i);
  }
  return groups;
}

void OptimizerStep::MakeAllStates(const Part& part) {
  for (const size_t i : part.parameters) {
    if (gradients_.Has(i)) MakeStates(part.rule, i);
  }
}

void OptimizerStep::MakeStates(const OptimizerRule& rule, size_t parameter) {
  if (has_states_[parameter]) return;
  has_states_[parameter] = true;
  for (const StateTensor& state : rule.states) MakeState(parameter, state);
}

void OptimizerStep::MakeState(size_t parameter, const StateTensor& state) {
  const TensorType type = StateType(state, TypeOf(parameter));
  if (type.dtype == DType::kUndefined) return;
  if (state.shared && !shared_made_.insert(state.name).second) return;
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
    case UpdateStep::Type::kKeep:
      for (const size_t parameter : group) Keep(step.making, parameter);
      return;
    case UpdateStep::Type::kEnd:
      return;
  }
}

void OptimizerStep::Keep(const Making& making, size_t parameter) {
  const TensorId made = Make(making, parameter);
  const TensorId old = std::exchange(kept_[parameter], made);
  if (old != kNoTensor) machine_.Release(old);
  machine_.SetKind(made, Kind::kOptimizerState);
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
  if (!shards_.empty()) return shards_[parameter];
  return calls_.program().values[Index(calls_.program().parameters[parameter])].type;
}

}  // namespace onnxfit

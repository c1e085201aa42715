#include "estimator/optimizers/optimizer_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/operators/kernel_scratch.h"
#include "estimator/operators/strides.h"
#include "estimator/optimizers/hidden_matrices.h"
#include "estimator/optimizers/muon_batches.h"
#include "estimator/optimizers/optimizer_rows.h"
#include "estimator/optimizers/parameter_groups.h"
#include "estimator/optimizers/sparse_rows.h"

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

// --- The averaged model --------------------------------------------------------

// A buffer's copy gets its own storage and, until that is set, one of a single element.
void AveragedModel::Construct() {
  const Program& program = calls_.program();
  const std::set<NameId> buffers(program.buffers.begin(), program.buffers.end());
  std::map<NameId, int64_t> flat;  // of parts of one tensor: its size with the first, then 0
  for (const FlatWeights& weights : program.flat_weights) {
    for (const NameId name : weights.names) flat[name] = 0;
    const auto first = std::ranges::find_first_of(program.copy_order, weights.names);
    if (first != program.copy_order.end()) flat[*first] = weights.numel;
  }
  for (const NameId name : program.copy_order) {
    const ProgramValue& value = program.values[Index(name)];
    const LabelId label = machine_.AddLabel(value.name + ".ema");
    const auto part = flat.find(name);
    if (part == flat.end()) {
      machine_.New(value.type, label, Kind::kBuffer);
    } else if (part->second > 0) {
      machine_.New({value.type.dtype, {part->second}}, label, Kind::kBuffer);
    }
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

// The statements of each loop over the parameters.
std::vector<std::span<const UpdateStep>> LoopsOf(const OptimizerRule& rule) {
  std::vector<std::span<const UpdateStep>> loops;
  auto first = rule.steps.begin();
  while (first != rule.steps.end()) {
    const auto last = std::find_if(first, rule.steps.end(), [](const UpdateStep& step) {
      return step.type == UpdateStep::Type::kAnew;
    });
    loops.emplace_back(first, last);
    first = last == rule.steps.end() ? last : last + 1;
  }
  return loops;
}

// By parameter.
std::vector<Dims> ProjectedShapes(const Program& program) {
  std::vector<Dims> shapes(program.parameters.size());
  for (const ProjectedMatrix& matrix : program.projected) {
    const auto found = std::ranges::find(program.parameters, matrix.parameter);
    shapes[Index(found - program.parameters.begin())] = matrix.dims;
  }
  return shapes;
}

void CheckInBackward(const TrainingSettings& settings) {
  const bool is_told = settings.optimizer_impl || settings.optimizer == Optimizer::kNone;
  if (!is_told && !HasImpl(settings.optimizer, OptimizerImpl::kForLoop, settings.framework)) {
    throw Error({.where = "--optimizer-in-backward",
                 .text = fmt::format("expected an optimizer whose loop over parameters "
                                     "(foreach=False) is known here, found {}",
                                     ToString(settings.optimizer)),
                 .hint = "-o adamw"});
  }
  const bool scales = settings.precision == Precision::kAmpFp16;
  if (!scales && !settings.clip_grad) return;
  throw Error({.where = "--optimizer-in-backward",
               .text = fmt::format("expected no {}, which waits for all gradients",
                                   scales ? "GradScaler (-p amp-fp16)" : "--clip-grad"),
               .hint = scales ? "-p amp-bf16" : ""});
}

}  // namespace

std::optional<OptimizerImpl> AskedImpl(const TrainingSettings& settings) {
  const bool is_told = settings.optimizer_impl || settings.optimizer == Optimizer::kNone;
  if (is_told) return settings.optimizer_impl;
  if (settings.optimizer_in_backward) return OptimizerImpl::kForLoop;
  const auto fuses = [&](Optimizer optimizer, LoopFact fact) {
    return settings.optimizer == optimizer && DoesLoop(settings.loop.library, fact);
  };
  const bool is_fused = fuses(Optimizer::kAdamW, LoopFact::kFusesAdamW) ||
                        fuses(Optimizer::kAdam, LoopFact::kFusesAdam);
  if (is_fused) return OptimizerImpl::kFused;
  const bool loops = settings.framework.loops_by_default &&
                     HasImpl(settings.optimizer, OptimizerImpl::kForLoop, settings.framework);
  return loops ? std::optional(OptimizerImpl::kForLoop) : std::nullopt;
}

OptimizerImpl ImplOf(const TrainingSettings& settings) {
  return FindOptimizerRule(settings.optimizer, AskedImpl(settings), settings.framework).impl;
}

std::vector<bool> AreStatesIn32Bits(const Program& program, const TrainingSettings& settings) {
  if (DoesLoop(settings.loop.library, LoopFact::kKeeps32Bits)) return AreEmbeddingTables(program);
  return std::vector<bool>(program.parameters.size());
}

OptimizerStep::OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                             const ParameterGradients& gradients)
    : OptimizerStep(calls, settings, gradients, PartsOf(calls.program(), settings)) {}

OptimizerStep::OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                             const ParameterGradients& gradients, const StepOptimizer& told)
    : OptimizerStep(calls, settings, gradients,
                    PartsOf(calls.program(), told, settings.framework)) {}

OptimizerStep::OptimizerStep(CallTable& calls, const TrainingSettings& settings,
                             const ParameterGradients& gradients, std::vector<Part> parts)
    : calls_(calls),
      machine_(calls.machine()),
      settings_(settings),
      gradients_(gradients),
      parts_(std::move(parts)),
      in_32_bits_(AreStatesIn32Bits(calls.program(), settings)),
      scaler_(machine_, settings.precision == Precision::kAmpFp16),
      averaged_(calls),
      label_(machine_.AddLabel("optimizer temporary")),
      soap_(calls, label_),
      galore_(calls, label_, ProjectedShapes(calls.program()), settings.galore.rank),
      has_states_(gradients.size()),
      kept_(gradients.size(), kNoTensor) {
  CheckSparseGradients(calls.program(), settings);
}

std::vector<OptimizerStep::Part> OptimizerStep::PartsOf(const Program& program,
                                                        const TrainingSettings& settings) {
  if (settings.optimizer_in_backward) CheckInBackward(settings);
  const auto find = [&](Optimizer optimizer, uint8_t args) {
    return &FindOptimizerRule(optimizer, AskedImpl(settings), settings.framework,
                              ArgsTaken(optimizer, args));
  };
  const OptimizerRule* first = find(settings.optimizer, settings.optimizer_args);
  const bool takes_all = first->of_others == Optimizer::kNone;
  if (takes_all) {
    const uint8_t others = settings.optimizer_args & ~kWeightDecay;
    Part groups;
    for (ParameterGroup& group : ParameterGroupsOf(program, settings)) {
      const uint8_t args = group.decays ? settings.optimizer_args : others;
      const uint8_t muon = group.uses_muon ? kUseMuon : 0;
      groups.push_back({find(settings.optimizer, args | muon), std::move(group.parameters)});
    }
    if (groups.empty()) groups.push_back({first, {}});  // nothing is trained
    return {groups};
  }
  std::vector<Part> parts = {{{first, {}}},
                             {{find(first->of_others, settings.optimizer_args), {}}}};
  const std::vector<bool> hidden = AreHiddenMatrices(program);
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    parts[hidden[i] ? 0 : 1][0].parameters.push_back(i);
  }
  return parts;
}

std::vector<OptimizerStep::Part> OptimizerStep::PartsOf(const Program& program,
                                                        const StepOptimizer& told,
                                                        const FrameworkProfile& framework) {
  Part groups;
  for (const StepOptimizer::Group& group : told.groups) {
    const uint8_t args = ArgsTaken(group.optimizer, group.args);
    groups.push_back({&FindOptimizerRule(group.optimizer, group.impl, framework, args), {}});
    for (const NameId name : group.parameters) {
      const auto found = std::ranges::find(program.parameters, name);
      if (found != program.parameters.end())
        groups.back().parameters.push_back(Index(found - program.parameters.begin()));
    }
  }
  return {groups};
}

void OptimizerStep::StepOnly(const std::vector<size_t>& parameters) {
  for (Part& part : parts_) {
    for (Group& group : part) {
      const Parameters had = std::exchange(group.parameters, {});
      std::ranges::copy_if(parameters, std::back_inserter(group.parameters), [&](size_t parameter) {
        return std::ranges::find(had, parameter) != had.end();
      });
    }
  }
}

void OptimizerStep::Construct() {
  for (const Part& part : parts_) {
    for (const Group& group : part) {
      if (group.rule->states_made != StatesMade::kConstruction) continue;
      for (const size_t i : group.parameters) MakeStates(*group.rule, i);
    }
  }
  if (settings_.ema) averaged_.Construct();
}

void OptimizerStep::RunOf(size_t parameter) {
  for (const Part& part : parts_) {
    for (const Group& group : part) {
      const bool has = std::ranges::find(group.parameters, parameter) != group.parameters.end();
      if (has) StepGroup({group.rule, {parameter}});
      ReturnFromStep();
    }
  }
}

void OptimizerStep::Run() {
  if (settings_.optimizer_in_backward) {
    if (settings_.ema) averaged_.Update();
    return;
  }
  Clip();
  for (size_t i = 0; i < parts_.size(); ++i) {
    scaler_.BeforeStep(parts_[i][0].rule->impl == OptimizerImpl::kFused, i);
    const TensorId norm = NormOfAll(parts_[i]);
    for (const Group& group : parts_[i]) StepGroup(group);
    ReturnFromStep();
    if (norm != kNoTensor) machine_.Release(norm);
  }
  scaler_.AfterStep();
  if (settings_.ema) averaged_.Update();
}

// grad_norm = None; grad_norm = clip_grad_norm_(model.parameters(), 1.0): without a loop that holds
// it, it is gone at once.
void OptimizerStep::Clip() {
  if (!settings_.clip_grad) return;
  if (norm_ != kNoTensor) machine_.Release(std::exchange(norm_, kNoTensor));
  for (size_t i = 0; i < parts_.size(); ++i) scaler_.Unscale();
  const TensorId norm = ClipGradNorm(calls_, gradients_);
  if (DoesLoop(settings_.loop.library, LoopFact::kHoldsNorm)) {
    norm_ = norm;
  } else if (norm != kNoTensor) {
    machine_.Release(norm);
  }
}

// global_norm = vector_norm(stack(norms)); return (global_norm / most).clamp_(min=1)
TensorId OptimizerStep::NormOfAll(const Part& part) {
  if (!part[0].rule->by_norm_of_all) return kNoTensor;
  std::vector<TensorType> types;
  for (const Group& group : part) {
    for (const size_t i : group.parameters) {
      if (gradients_.Has(i)) types.push_back(TypeOf(i));
    }
  }
  if (types.empty()) return kNoTensor;
  const NormOfNorms norm = TotalNorm(calls_, types, label_);
  const TensorId quotient = machine_.New({types[0].dtype, {}}, label_);
  for (size_t i = norm.norms.size(); i-- > 0;) machine_.Release(norm.norms[i]);
  machine_.Release(norm.total);
  return quotient;
}

void OptimizerStep::StepGroup(const Group& group) {
  const OptimizerRule& rule = *group.rule;
  const bool makes_states =
      rule.states_made == StatesMade::kFirstStep && MakeAllStates(rule, group.parameters);
  if (rule.begins_with_states && makes_states) return;
  const std::vector<Parameters> lists = RunTogether(rule, group.parameters);
  StepSparse(rule, group.parameters);
  for (const std::span<const UpdateStep> loop : LoopsOf(rule)) {
    for (const Parameters& together : lists) {
      for (const UpdateStep& step : loop) Take(rule, step, together);
    }
  }
  if (!rule.in_step_itself) ReturnFromStep();
}

void OptimizerStep::StepSparse(const OptimizerRule& rule, const Parameters& group) {
  JoinedRows rows(calls_, settings_, label_);
  for (const size_t i : group) {
    if (rule.joined_blocks == 0 || !IsSparse(i)) continue;
    const Tensor& gradient = machine_.tensor(gradients_.at(i));
    rows.Step({gradient.dtype, gradient.dims}, TypeOf(i).dims[0], rule.joined_blocks);
  }
}

void OptimizerStep::ReturnFromStep() {
  for (size_t local = 0; local < kLocals; ++local) BindLocal(static_cast<Local>(local), {});
  soap_.Return();
  galore_.Return();
}

// The parameters that have a gradient, in those lists for which the statements of a step
// run: all at once, matrices and vectors, or one at a time.
std::vector<OptimizerStep::Parameters> OptimizerStep::RunTogether(const OptimizerRule& rule,
                                                                  const Parameters& group) const {
  std::vector<Parameters> lists;
  std::unordered_map<size_t, size_t> known;
  for (const size_t i : group) {
    if (!gradients_.Has(i) || IsSparse(i)) continue;
    const bool is_matrix = rule.matrices_apart && TypeOf(i).dims.size() > 1;
    const size_t key = rule.impl == OptimizerImpl::kForLoop ? i : size_t{is_matrix};
    const auto [list, is_new] = known.emplace(key, lists.size());
    if (is_new) lists.emplace_back();
    lists[list->second].push_back(i);
  }
  return lists;
}

bool OptimizerStep::IsSparse(size_t parameter) const {
  return gradients_.Has(parameter) &&
         machine_.tensor(gradients_.at(parameter)).indices != kNoTensor;
}

// Whether there were some to make.
bool OptimizerStep::MakeAllStates(const OptimizerRule& rule, const Parameters& group) {
  bool made = false;
  for (const size_t i : group) {
    if (!gradients_.Has(i)) continue;
    made |= !has_states_[i];
    MakeStates(rule, i);
  }
  return made;
}

void OptimizerStep::MakeStates(const OptimizerRule& rule, size_t parameter) {
  if (has_states_[parameter]) return;
  has_states_[parameter] = true;
  const OptimizerStates& states = StatesOf(rule, in_32_bits_[parameter]);
  for (const StateTensor& state : states) MakeState(parameter, state);
}

void OptimizerStep::MakeState(size_t parameter, const StateTensor& state) {
  const TensorType type = StateType(state, TypeOf(parameter));
  if (type.dtype == DType::kUndefined) return;
  if (state.shared && !shared_made_.insert(state.name).second) return;
  const LabelId label = machine_.AddLabel(NameOf(parameter) + "." + std::string(state.name));
  machine_.New(type, label, Kind::kOptimizerState);
}

void OptimizerStep::Take(const OptimizerRule& rule, const UpdateStep& step,
                         std::span<const size_t> group) {
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
    case UpdateStep::Type::kNorms:
      return BindLocal(step.local, ForeachNorms(calls_, TypesOf(group, step.making.type), label_));
    case UpdateStep::Type::kMuon:
      return BindLocal(step.local, MuonUpdates(calls_, TypesOf(group, Same), label_));
    case UpdateStep::Type::kSoap:
      for (const size_t parameter : group)
        soap_.Turn(parameter, NameOf(parameter), TypeOf(parameter));
      return;
    case UpdateStep::Type::kGaLore:
      for (const size_t parameter : group)
        galore_.Turn(parameter, NameOf(parameter), TypeOf(parameter));
      return;
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
    case UpdateStep::Type::kStates:
      for (const size_t parameter : group) MakeStates(rule, parameter);
      return;
    case UpdateStep::Type::kAnew:  // LoopsOf
    case UpdateStep::Type::kEnd:
      return;
  }
}

std::vector<TensorType> OptimizerStep::TypesOf(std::span<const size_t> group,
                                               TypeForParameter type) const {
  std::vector<TensorType> types;
  for (const size_t parameter : group) types.push_back(type(TypeOf(parameter)));
  return types;
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

const std::string& OptimizerStep::NameOf(size_t parameter) const {
  return calls_.program().values[Index(calls_.program().parameters[parameter])].name;
}

const TensorType& OptimizerStep::TypeOf(size_t parameter) const {
  if (!shards_.empty()) return shards_[parameter];
  return calls_.program().values[Index(calls_.program().parameters[parameter])].type;
}

}  // namespace onnxfit

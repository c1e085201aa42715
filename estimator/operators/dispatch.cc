#include "estimator/operators/dispatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/libraries/libraries.h"
#include "estimator/operators/dispatcher.h"
#include "estimator/operators/given_casts.h"
#include "estimator/operators/strides.h"
#include "estimator/program/sharded_modules.h"
#include "estimator/program/ties.h"

namespace onnxfit {
namespace {

constexpr size_t kPictureRank = 4;  // [N, C, H, W]

// The type that holds both, as PyTorch promotes: fp32 of two different 16-bit types.
DType Promoted(DType a, DType b) {
  if (!IsFloat(a)) return b;
  if (!IsFloat(b) || a == b) return a;
  if (BitsOf(a) == BitsOf(b)) return DType::kFloat32;
  return BitsOf(a) > BitsOf(b) ? a : b;
}

// Whether a kernel reads `lower` and makes fp32 of it.
bool MakesFp32(AutocastPolicy policy, DType lower) {
  return policy == AutocastPolicy::kFp32Result ||
         (policy == AutocastPolicy::kFp32FromHalf && lower == DType::kFloat16);
}

AutocastPolicy PolicyOf(const OpRule& rule, const FrameworkProfile& framework) {
  const bool is_out = rule.not_autocast != nullptr && framework.*rule.not_autocast;
  return is_out ? AutocastPolicy::kAsIs : rule.autocast;
}

bool Casts(AutocastPolicy policy, DType lower) {
  return policy != AutocastPolicy::kAsIs && !MakesFp32(policy, lower);
}

}  // namespace

Dispatcher::Dispatcher(Program program, const TrainingSettings& settings)
    : program_(std::move(program)),
      settings_(settings),
      is_leaf_(program_.values.size()),
      needs_grad_(program_.values.size()),
      is_own_(program_.values.size()),
      same_(program_.values.size()),
      names_of_(program_.values.size(), 1) {
  std::iota(same_.begin(), same_.end(), 0);
  for (const NameId name : program_.parameters) {
    is_leaf_[Index(name)] = true;
    needs_grad_[Index(name)] = trains();
    is_own_[Index(name)] = true;
  }
  for (const NameId name : program_.received) {
    needs_grad_[Index(name)] = trains();
    is_leaf_[Index(name)] = TypeOf(name).dtype == DType::kFloat32;
  }
  for (ProgramValue& value : program_.values) {
    value.type.strides = ContiguousStrides(value.type.dims);
  }
  if (settings_.channels_last) LayChannelsLast();
}

// model.to(memory_format=torch.channels_last), as Module.to does it (torch/nn/modules/module.py,
// 2.11.0), and pictures.contiguous(memory_format=torch.channels_last), but for loops that leave
// them; labels stay as they are.
void Dispatcher::LayChannelsLast() {
  const auto lay = [this](NameId name) {
    StridedType& type = program_.values[Index(name)].type;
    type.strides = StridesIn(MemoryFormat::kChannelsLast, type.dims);
  };
  for (const NameId name : program_.placement) {
    if (TypeOf(name).dims.size() == kPictureRank) lay(name);
    if (TypeOf(name).dims.size() == kPictureRank + 1) {
      throw Error({.where = "--channels-last",
                   .text = fmt::format("expected kernels of pictures, found '{}' of 5 dimensions, "
                                       "which torch.channels_last refuses",
                                       program_.values[Index(name)].name)});
    }
  }
  if (DoesLoop(settings_.loop.library, LoopFact::kLaysChannelsLast)) return;
  const size_t labels = HasLabels(program_) ? 1 : 0;
  for (const NameId name : std::span(program_.inputs).first(program_.inputs.size() - labels)) {
    const StridedType& type = TypeOf(name);
    const bool is_picture = IsFloat(type.dtype) && type.dims.size() == kPictureRank;
    if (is_picture && !IsContiguousIn(MemoryFormat::kChannelsLast, type)) lay(name);
  }
}

Program Dispatcher::Run() && {
  std::vector<AtenCall> calls = std::exchange(program_.calls, {});
  program_.calls.reserve(calls.size() * 2);
  is_to_come_.resize(program_.values.size());
  for (const AtenCall& call : calls) SetToCome(call.outputs, true);
  for (AtenCall& call : calls) Dispatch(std::move(call));
  Rename(program_.outputs);
  Rename(program_.sent);
  if (program_.loss != kNoName) program_.loss = Same(program_.loss);
  program_.keepers.resize(program_.values.size());
  return std::move(program_);
}

// Casts that torch.autocast keeps in a forward are gone when a function's backward runs, and what
// it keeps there no forward sees.
void Dispatcher::FollowFunction(const AtenCall& call) {
  if (call.function == FunctionPart::kNode) {
    const bool is_wanted = std::ranges::any_of(ArgumentsOfFunction(call), [this](NameId name) {
      return name != kNoName && needs_grad_[Index(name)];
    });
    for (const NameId name : ResultsOfFunction(call))
      if (name != kNoName) needs_grad_[Index(name)] = is_wanted;
  }
  if (call.function == FunctionPart::kArrival || call.function == FunctionPart::kReturn)
    std::swap(cached_casts_, casts_outside_);
}

void Dispatcher::Dispatch(AtenCall call) {
  if (call.function != FunctionPart::kNone) FollowFunction(call);
  if (!cached_casts_.empty() && !IsInAutocast(call)) DropCachedCasts();
  const std::vector<NameId> last_reads = std::exchange(call.last_reads, {});
  const std::vector<NameId> dies = std::exchange(call.dies, {});
  const std::vector<NameId> drops = std::exchange(call.drops, {});
  Rename(call.inputs);
  if (call.typed_like != kNoName) call.typed_like = Same(call.typed_like);
  SetToCome(call.outputs, false);
  const bool asks = std::exchange(call.asks_for_gradients, false);
  running_ = &call;
  const OpRule& rule = FindOpRule(call.op);
  CastArguments(call, rule);
  if (rule.take_apart != nullptr) {
    rule.take_apart(*this, call);
  } else {
    Append(std::move(call));
  }
  if (asks) AskForGradients();
  End(last_reads, dies);
  if (!drops.empty()) program_.calls.back().drops = drops;
  running_ = nullptr;
}

// The last part of a call is that whose result asks.
void Dispatcher::AskForGradients() {
  AtenCall& call = program_.calls.back();
  call.asks_for_gradients = true;
  for (const NameId output : call.outputs) {
    if (output != kNoName) needs_grad_[Index(output)] = true;
  }
}

DType Dispatcher::AutocastTypeOf(const AtenCall& call) const {
  if (call.leaves_autocast || call.behind_autocast) return DType::kUndefined;
  return call.enters_autocast != DType::kUndefined ? call.enters_autocast
                                                   : AutocastType(settings_.precision);
}

// Whether a block of torch.autocast is open, be it one that disables it.
bool Dispatcher::IsInAutocast(const AtenCall& call) const {
  return !call.behind_autocast &&
         (call.leaves_autocast || AutocastTypeOf(call) != DType::kUndefined);
}

// As torch.autocast does where the outermost block ends (torch/amp/autocast_mode.py, __exit__): of
// a block inside the model, where the loop has none, and of the loop's, where it ends before the
// loss.
void Dispatcher::DropCachedCasts() {
  for (const NameId cast : program_.cached_casts) {
    if (std::erase_if(cached_casts_, [&](const auto& cached) { return cached.second == cast; }) > 0)
      program_.calls.back().dies.push_back(cast);
  }
}

// Arguments are cast from the last to the first.  Source: pytorch v2.6.0,
// aten/src/ATen/autocast_mode.cpp; the order from recorded events, torch 2.11.
void Dispatcher::CastArguments(AtenCall& call, const OpRule& rule) {
  const DType lower = AutocastTypeOf(call);
  const AutocastPolicy policy = PolicyOf(rule, settings_.framework);
  if (lower == DType::kUndefined || !Casts(policy, lower)) return;
  const DType to = CastType(call, policy, lower);
  for (size_t i = call.inputs.size(); i-- > 0;) {
    if (call.inputs[i] == kNoName) continue;
    const DType from = TypeOf(call.inputs[i]).dtype;
    if (from == to || !IsFloat(from) || from == DType::kFloat64) continue;
    call.inputs[i] = CastOf(call.inputs[i], to);
  }
}

DType Dispatcher::CastType(const AtenCall& call, AutocastPolicy policy, DType lower) const {
  if (policy == AutocastPolicy::kLower) return lower;
  if (policy != AutocastPolicy::kWidest) return DType::kFloat32;
  const auto is_wide = [&](NameId input) {
    return input != kNoName && TypeOf(input).dtype == DType::kFloat32;
  };
  return std::ranges::any_of(call.inputs, is_wide) ? DType::kFloat32 : lower;
}

// Leaves are cast once, where autocast keeps them; what else is an argument each time.  What is
// kept has a gradient and asks for one, also where torch.no_grad() is around the call (recorded
// events, torch 2.11).
NameId Dispatcher::CastOf(NameId name, DType to) {
  const bool is_cached = is_leaf_[Index(name)] && to != DType::kFloat32 &&
                         !DoesLoop(settings_.loop.library, LoopFact::kCastsEachTime);
  const auto cached = cached_casts_.find(name);
  if (is_cached && cached != cached_casts_.end()) return cached->second;
  const NameId cast = NewName(program_.values[Index(name)].name + ".cast", {to, TypeOf(name).dims});
  AtenCall copies = PartOfRunning("_to_copy", {name}, cast, {});
  copies.leaves_autograd = copies.leaves_autograd && !is_cached;
  copies.is_autocasts = true;
  Append(std::move(copies));
  if (is_cached) {
    is_own_[Index(cast)] = true;
    cached_casts_[name] = cast;
    program_.cached_casts.push_back(cast);
  } else {
    casts_.push_back(cast);
  }
  return cast;
}

NameId Dispatcher::NewName(std::string name, const TensorType& type) {
  const auto id = static_cast<NameId>(program_.values.size());
  program_.values.push_back({std::move(name), Contiguous(type)});
  is_leaf_.push_back(false);
  needs_grad_.push_back(false);
  is_own_.push_back(false);
  same_.push_back(id);
  names_of_.push_back(1);
  return id;
}

// A call in the place of the running one.
AtenCall Dispatcher::PartOfRunning(std::string_view op, std::vector<NameId> inputs, NameId output,
                                   std::vector<int64_t> ints) const {
  return {.op = op,
          .where = running_->where,
          .inputs = std::move(inputs),
          .outputs = {output},
          .ints = std::move(ints),
          .module = running_->module,
          .written_in_place = running_->written_in_place,
          .writes_over_first = running_->writes_over_first,
          .leaves_autocast = running_->leaves_autocast,
          .enters_autocast = running_->enters_autocast,
          .behind_autocast = running_->behind_autocast,
          .leaves_autograd = running_->leaves_autograd,
          .function = running_->function,
          .is_distributed = running_->is_distributed,
          .checkpoint = running_->checkpoint,
          .made_once = running_->made_once,
          .frames = running_->frames};
}

NameId Dispatcher::Make(std::string_view op, std::vector<NameId> inputs, const TensorType& type,
                        std::vector<int64_t> ints) {
  const auto result =
      std::ranges::find_if(running_->outputs, [](NameId id) { return id != kNoName; });
  const std::string name =
      result == running_->outputs.end() ? running_->where : program_.values[Index(*result)].name;
  const NameId local = NewName(name + "." + std::string(op), type);
  locals_.push_back(local);
  Append(PartOfRunning(op, std::move(inputs), local, std::move(ints)));
  return local;
}

NameId Dispatcher::MakeInAutocast(std::string_view op, std::vector<NameId> inputs,
                                  const TensorType& type) {
  AtenCall call = PartOfRunning(op, std::move(inputs), kNoName, {});
  CastArguments(call, FindOpRule(op));
  return Make(op, std::move(call.inputs), type);
}

void Dispatcher::MakeResult(std::string_view op, std::vector<NameId> inputs,
                            std::vector<int64_t> ints) {
  Append(PartOfRunning(op, std::move(inputs), running_->outputs[0], std::move(ints)));
}

NameId Dispatcher::MakeResults(std::string_view op, std::vector<NameId> inputs,
                               const std::vector<TensorType>& types, std::vector<int64_t> ints,
                               bool keeps_first) {
  AtenCall call = PartOfRunning(op, std::move(inputs), kNoName, std::move(ints));
  call.outputs.clear();
  for (size_t i = 0; i < types.size(); ++i) {
    const bool is_named =
        i < running_->outputs.size() && running_->outputs[i] != kNoName && (i > 0 || !keeps_first);
    const NameId result = is_named ? running_->outputs[i]
                                   : NewName(fmt::format("{}.{}", running_->where, i), types[i]);
    if (!is_named) locals_.push_back(result);
    call.outputs.push_back(result);
  }
  const NameId first = call.outputs[0];
  Append(std::move(call));
  return first;
}

NameId Dispatcher::CastArgument(NameId name, DType to) {
  const DType from = TypeOf(name).dtype;
  const bool is_cast = from != to && IsFloat(from) && from != DType::kFloat64;
  return is_cast ? CastOf(name, to) : name;
}

void Dispatcher::KeepFlat(const std::vector<NameId>& names, int64_t numel) {
  const std::set<NameId> model(program_.placement.begin(), program_.placement.end());
  for (const NameId name : names) {
    if (!model.contains(name) || !flat_.insert(name).second) return;
  }
  program_.flat_weights.push_back({names, numel});
}

void Dispatcher::TypeOwnConstant(NameId name, DType dtype) {
  const auto maker =
      std::find_if(program_.calls.rbegin(), program_.calls.rend(), [&](const AtenCall& call) {
        return std::ranges::find(call.outputs, name) != call.outputs.end();
      });
  const bool is_own = maker != program_.calls.rend() && maker->op == "constant" &&
                      maker->inputs.empty() && maker->module == running_->module;
  if (is_own) program_.values[Index(name)].type.dtype = dtype;
}

void Dispatcher::MakeOnce(std::string_view op, const TensorType& type) {
  const bool is_there =
      std::ranges::any_of(program_.calls, [&](const AtenCall& call) { return call.op == op; });
  if (is_there) return;
  AtenCall call = PartOfRunning(op, {}, NewName(std::string(op), type), {});
  call.made_once = true;
  Append(std::move(call));
}

void Dispatcher::SetResultType(DType dtype) {
  program_.values[Index(running_->outputs[0])].type.dtype = dtype;
}

void Dispatcher::ReturnSame(NameId name) {
  same_[Index(running_->outputs[0])] = name;
  const bool is_own_cast = std::erase(casts_, name) > 0;
  if (!is_own_cast) ++names_of_[Index(name)];
}

void Dispatcher::Assume(std::string_view assumption) {
  std::vector<std::string>& told = program_.assumptions;
  if (std::find(told.begin(), told.end(), assumption) == told.end()) told.emplace_back(assumption);
}

void Dispatcher::Drop(NameId local) {
  if (std::erase(locals_, local) == 0) return;
  program_.calls.back().dies.push_back(local);
}

void Dispatcher::DropBeyond(size_t count, NameId kept) {
  const std::vector<NameId> locals(locals_.begin() + static_cast<std::ptrdiff_t>(count),
                                   locals_.end());
  for (const NameId local : locals) {
    if (local != kept) Drop(local);
  }
}

NameId Dispatcher::Reshape(NameId name, const Dims& dims) {
  const StridedType& type = TypeOf(name);
  if (StridesOfView(type, dims).possible) return Make("view", {name}, {type.dtype, dims});
  const NameId copy = Make("clone", {name}, type, kAsContiguous);
  return Make("view", {copy}, {TypeOf(copy).dtype, dims});
}

void Dispatcher::ReshapeResult(NameId name) {
  if (!StridesOfView(TypeOf(name), TypeOf(running_->outputs[0]).dims).possible) {
    name = Make("clone", {name}, TypeOf(name), kAsContiguous);
  }
  MakeResult("view", {name});
}

NameId Dispatcher::Permute(NameId name, const std::vector<int64_t>& order) {
  const TensorType type = {TypeOf(name).dtype, Permuted(TypeOf(name).dims, order)};
  const NameId permuted = Make("permute", {name}, type, order);
  program_.values[Index(permuted)].name = program_.values[Index(name)].name;
  return permuted;
}

void Dispatcher::Append(AtenCall call) {
  const OpRule& rule = FindOpRule(call.op);
  SetTypes(call, rule);
  program_.calls.push_back(std::move(call));
}

void Dispatcher::SetTypes(const AtenCall& call, const OpRule& rule) {
  const DType lower = AutocastTypeOf(call);
  const bool makes_fp32 = lower != DType::kUndefined && MakesFp32(rule.autocast, lower);
  DType dtype = ResultType(call, rule);
  if (makes_fp32 && BitsOf(dtype) == 16) dtype = DType::kFloat32;
  const bool needs_grad = AnyNeedsGrad(call, rule);
  const bool is_own = rule.alias != Alias::kNone && is_own_[Index(call.inputs[0])];
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.outputs[i] == kNoName) continue;
    StridedType& type = program_.values[Index(call.outputs[i])].type;
    if (IsFloat(type.dtype) && IsFloat(dtype) && !rule.has_own_type) type.dtype = dtype;
    type.strides = StridesOf(call, rule, i);
    needs_grad_[Index(call.outputs[i])] = needs_grad && HasGradients(type.dtype);
    is_own_[Index(call.outputs[i])] = is_own;
  }
}

// That of the first input, or, where it is not written over, the widest one; numbers on the device
// do not widen tensors.
DType Dispatcher::ResultType(const AtenCall& call, const OpRule& rule) const {
  const bool is_over_first = call.written_in_place == true && rule.in_place != InPlace::kNever;
  DType of_tensors = DType::kUndefined;
  DType of_numbers = DType::kUndefined;
  for (const NameId name : call.inputs) {
    if (name == kNoName) continue;
    const StridedType& type = TypeOf(name);
    if (!rule.promotes || is_over_first) return type.dtype;
    DType& widest = type.dims.empty() ? of_numbers : of_tensors;
    widest = Promoted(widest, type.dtype);
  }
  return IsFloat(of_tensors) ? of_tensors : of_numbers;
}

bool Dispatcher::AnyNeedsGrad(const AtenCall& call, const OpRule& rule) const {
  if (call.leaves_autograd) return false;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.inputs[i] == kNoName || !needs_grad_[Index(call.inputs[i])]) continue;
    const Gradient& gradient = GradientOf(rule, static_cast<int>(i));
    if (rule.keeps_everything || gradient.form != Gradient::Form::kNone) return true;
  }
  return false;
}

Dims Dispatcher::StridesOf(const AtenCall& call, const OpRule& rule, size_t output) const {
  const Dims& dims = TypeOf(call.outputs[output]).dims;
  const bool has_input = !call.inputs.empty() && call.inputs[0] != kNoName;
  if (rule.strides != nullptr && has_input)
    return rule.strides(CallTypes(program_, call, settings_));
  if (rule.alias == Alias::kNone || !has_input) return ContiguousStrides(dims);
  const StridedType& base = TypeOf(call.inputs[0]);
  switch (rule.alias) {
    case Alias::kPermute:
      return Permuted(base.strides, call.ints);
    case Alias::kExpand:
      return ExpandedStrides(base, dims);
    case Alias::kNarrow:
      return NarrowedStrides(base, dims, call.ints);
    case Alias::kReshape:
    case Alias::kNone:
      break;
  }
  Dims unsqueezed = UnsqueezedStrides(base, dims);
  return unsqueezed.empty() ? StridesOfView(base, dims).strides : std::move(unsqueezed);
}

// Locals die when the call returns, then what autocast cast for it, from the last to the first,
// then names.
void Dispatcher::End(const std::vector<NameId>& last_reads, const std::vector<NameId>& dies) {
  if (program_.calls.empty()) return;
  AtenCall& last = program_.calls.back();
  last.dies.insert(last.dies.end(), locals_.begin(), locals_.end());
  last.dies.insert(last.dies.end(), casts_.rbegin(), casts_.rend());
  locals_.clear();
  casts_.clear();
  for (const NameId name : last_reads) {
    if (names_of_[Index(Same(name))] == 1) last.last_reads.push_back(Same(name));
  }
  for (const NameId name : dies) {
    if (is_to_come_[Index(name)]) {  // what it was in the step before
      last.dies.push_back(name);
      continue;
    }
    if (--names_of_[Index(Same(name))] == 0) last.dies.push_back(Same(name));
  }
}

void Dispatcher::SetToCome(const std::vector<NameId>& names, bool is_to_come) {
  for (const NameId name : names) {
    if (name != kNoName) is_to_come_[Index(name)] = is_to_come;
  }
}

NameId Dispatcher::Same(NameId name) const {
  while (same_[Index(name)] != name) name = same_[Index(name)];
  return name;
}

void Dispatcher::Rename(std::vector<NameId>& names) const {
  for (NameId& name : names) {
    if (name != kNoName) name = Same(name);
  }
}

Program Dispatch(Program program, const TrainingSettings& settings) {
  if (program.evaluation != nullptr) {
    program.evaluation =
        std::make_shared<const Program>(Dispatch(*program.evaluation, EvaluationOf(settings)));
  }
  const RankSettings& ranks = settings.ranks;
  const bool has_backward = settings.mode == Mode::kTrain && HasBackward(program);
  has_backward ? JoinTiesWithinShards(program, ShardedGlobs(ranks)) : JoinTies(program);
  if (ranks.fsdp_policy && settings.mode == Mode::kTrain) {
    program = CastGivenToModules(std::move(program), ShardedGlobs(ranks),
                                 ParameterType(settings.precision));
  }
  return Dispatcher(std::move(program), settings).Run();
}

const AtenCall* FindRefused(const Program& program) {
  const auto found = std::ranges::find_if(program.calls, [&](const AtenCall& call) {
    const DType refused = FindOpRule(call.op).refuses;
    return refused != DType::kUndefined &&
           program.values[Index(call.inputs[0])].type.dtype == refused;
  });
  return found == program.calls.end() ? nullptr : &*found;
}

bool HasNoKernelsIn(DType type, const Program& program) {
  return std::ranges::any_of(
      program.calls, [&](const AtenCall& call) { return FindOpRule(call.op).refuses == type; });
}

}  // namespace onnxfit

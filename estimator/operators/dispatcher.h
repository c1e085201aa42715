// What functions in rows use that take a call apart (OpRule::take_apart), and calls that several of
// them take apart.  Internal to the room operators/.
#pragma once

#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/device.h"
#include "estimator/base/index.h"
#include "estimator/base/settings.h"
#include "estimator/operators/op_rule.h"
#include "estimator/program/program.h"

namespace onnxfit {

// The ints of a clone that is asked to be contiguous, or to be in the format that it suggests:
// clone(memory_format=contiguous_format).
inline const std::vector<int64_t> kAsContiguous = {1};
inline const std::vector<int64_t> kInSuggestedFormat = {2};

class Dispatcher {
 public:
  // `settings` must outlive it.
  Dispatcher(Program program, const TrainingSettings& settings);

  Program Run() &&;

  // --- for the functions in the rows ---

  const StridedType& TypeOf(NameId name) const { return program_.values[Index(name)].type; }
  bool NeedsGrad(NameId name) const { return needs_grad_[Index(name)]; }
  // PyTorch's flag, which parameters and views of them have under no_grad too
  // (DifferentiableViewMeta::requires_grad, torch/csrc/autograd/variable.h; seen in torch 2.11).
  bool RequiresGrad(NameId name) const { return needs_grad_[Index(name)] || is_own_[Index(name)]; }
  bool trains() const { return settings_.mode == Mode::kTrain; }
  // Whether ranks share them by DeepSpeed's ZeRO stage 3, which has linear layers of its own.
  bool shares_parameters() const { return settings_.ranks.strategy == Strategy::kZero3; }
  DType parameter_type() const { return ParameterType(settings_.precision); }
  const FrameworkProfile& framework() const { return settings_.framework; }
  const DeviceProfile& device() const { return settings_.device; }
  bool is_compiled() const { return settings_.compile != Compiling::kNone; }
  // What the answer rests on, told once.
  void Assume(std::string_view assumption);

  // Runs `op`; the result is a local of the call that is taken apart, which lives until the
  // call returns.  Of `type` the dtype counts only where it does not follow from the inputs.
  NameId Make(std::string_view op, std::vector<NameId> inputs, const TensorType& type,
              std::vector<int64_t> ints = {});
  // The same of an `op` that autocast, where it is on, casts the arguments of.
  NameId MakeInAutocast(std::string_view op, std::vector<NameId> inputs, const TensorType& type);
  // Runs `op`; the result is that of the call that is taken apart.
  void MakeResult(std::string_view op, std::vector<NameId> inputs, std::vector<int64_t> ints = {});
  // The same of a call with several results, of these types: those of the call that is taken
  // apart, or locals where it has none.  With `keeps_first` the first is a local, which it returns.
  NameId MakeResults(std::string_view op, std::vector<NameId> inputs,
                     const std::vector<TensorType>& types, std::vector<int64_t> ints,
                     bool keeps_first);
  // What torch.autocast casts the running call to; kUndefined: nothing.
  DType autocast_type() const { return AutocastTypeOf(*running_); }
  // `name` as autocast casts it, for as long as the call runs; itself where it has that type.
  NameId CastArgument(NameId name, DType to);
  // These parameters, a whole module's, are parts of one tensor of `numel`.
  void KeepFlat(const std::vector<NameId>& names, int64_t numel);
  // torch.zeros (…, dtype=input.dtype) of the running call's module: `name` has that type where the
  // module made it so.
  void TypeOwnConstant(NameId name, DType dtype);
  // What stays once `op` has made it, of which the program has one; `inputs` there are none.
  void MakeOnce(std::string_view op, const TensorType& type);
  // The result that MakeResult makes next is of another type than the program says.
  void SetResultType(DType dtype);
  // The call returns `name` itself.
  void ReturnSame(NameId name);
  // A local is let go before the next call; what the caller gave, or autocast cast, stays.
  void Drop(NameId local);
  // How many locals there are, and: those beyond the first `count` are let go, but `kept`.
  size_t local_count() const { return locals_.size(); }
  void DropBeyond(size_t count, NameId kept);

  // Views; Reshape copies where the strides of `name` forbid one.
  NameId Reshape(NameId name, const Dims& dims);
  void ReshapeResult(NameId name);
  NameId Permute(NameId name, const std::vector<int64_t>& order);

 private:
  void Dispatch(AtenCall call);
  void AskForGradients();
  // What torch.autocast casts to around `call`; kUndefined: nothing.
  DType AutocastTypeOf(const AtenCall& call) const;
  bool IsInAutocast(const AtenCall& call) const;
  void FollowFunction(const AtenCall& call);
  void DropCachedCasts();
  void LayChannelsLast();
  void CastArguments(AtenCall& call, const OpRule& rule);
  DType CastType(const AtenCall& call, AutocastPolicy policy, DType lower) const;
  NameId CastOf(NameId name, DType to);
  NameId NewName(std::string name, const TensorType& type);
  AtenCall PartOfRunning(std::string_view op, std::vector<NameId> inputs, NameId output,
                         std::vector<int64_t> ints) const;
  void Append(AtenCall call);
  void SetTypes(const AtenCall& call, const OpRule& rule);
  DType ResultType(const AtenCall& call, const OpRule& rule) const;
  bool AnyNeedsGrad(const AtenCall& call, const OpRule& rule) const;
  Dims StridesOf(const AtenCall& call, const OpRule& rule, size_t output) const;
  void End(const std::vector<NameId>& last_reads, const std::vector<NameId>& dies);

  void SetToCome(const std::vector<NameId>& names, bool is_to_come);
  NameId Same(NameId name) const;
  void Rename(std::vector<NameId>& names) const;

  Program program_;
  const TrainingSettings& settings_;
  const AtenCall* running_ = nullptr;
  std::vector<NameId> locals_;                        // of the running call
  std::vector<NameId> casts_;                         // that autocast made for the running call
  std::unordered_map<NameId, NameId> cached_casts_;   // of leaves
  std::unordered_map<NameId, NameId> casts_outside_;  // of a function's backward that is written
  std::set<NameId> flat_;                             // parameters that KeepFlat was given
  std::vector<bool> is_leaf_;      // by NameId: trained, or received: autocast keeps its cast
  std::vector<bool> needs_grad_;   // by NameId
  std::vector<bool> is_own_;       // by NameId: a parameter, its kept cast, or a view of one
  std::vector<NameId> same_;       // by NameId: what it is another name of, or itself
  std::vector<int32_t> names_of_;  // by NameId: names of the same tensor that live
  std::vector<bool> is_to_come_;   // by NameId of the program: a call further on makes it
};

// x.contiguous(): x itself, or a local.
NameId MakeDense(Dispatcher& dispatcher, NameId name);
// x.contiguous(x.suggest_memory_format())
NameId MakeInFormat(Dispatcher& dispatcher, NameId name);

// What is made last is the result of the running call, or a local of it.
enum class Ends : uint8_t { kCall, kLocal };

// torch.matmul of any number of dimensions.  Returns the local, kNoName for the result.
NameId MatMul(Dispatcher& dispatcher, NameId a, NameId b, Ends ends);

// torch.nn.functional.scaled_dot_product_attention: what PyTorch runs around the kernel that it
// takes, or instead of one.  q, k, v and a mask or none, with ints: whether it drops out, whether
// it is causal.
void TakeAttentionApart(Dispatcher& dispatcher, const AtenCall& call);

}  // namespace onnxfit

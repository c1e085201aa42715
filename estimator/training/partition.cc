#include "estimator/training/partition.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

#include "estimator/base/index.h"
#include "estimator/base/min_cut.h"
#include "estimator/operators/op_rule.h"
#include "estimator/training/channels_last.h"

namespace onnxfit {
namespace {

// What get_default_op_list() of partitioners.py leaves out of what may be computed again, of
// families whose other operators are in it.
constexpr std::array<std::string_view, 27> kNotAgain = {"argsort",
                                                        "cumsum",
                                                        "nonzero",
                                                        "bernoulli",
                                                        "bernoulli.self",
                                                        "normal",
                                                        "rrelu",
                                                        "sort",
                                                        "median",
                                                        "prod",
                                                        "cumprod",
                                                        "cummax",
                                                        "logcumsumexp",
                                                        "cat",
                                                        "pad",
                                                        "pad.reflect",
                                                        "pad.copies",
                                                        "pad.circular",
                                                        "flip",
                                                        "im2col",
                                                        "scatter",
                                                        "scatter_add",
                                                        "topk",
                                                        "kthvalue",
                                                        "grid_sampler",
                                                        "_grid_sampler",
                                                        "_cudnn_grid_sampler"};
// Their backward asks for the sign of a result alone, which is kept in a byte where the result is
// not (aten.le.Scalar).
constexpr std::array<std::string_view, 3> kSignReaders = {"relu", "leaky_relu", "hardtanh"};
// Places within a window are kept in a byte (prims._low_memory_max_pool_with_offsets).
constexpr std::array<std::string_view, 1> kInBytes = {"max_pool2d"};

template <size_t kCount>
bool IsAmong(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

bool IsOf(std::span<const OpRule> rules, const OpRule& rule) {
  return !rules.empty() && &rule >= rules.data() && &rule <= &rules.back();
}

bool DropsOut(const OpRule& rule) { return IsOf(DropoutRules(), rule); }

// Whether Inductor has the call in kernels with its neighbours, and may compute it again.
bool IsFusible(const OpRule& rule) {
  if (rule.keeps_everything || IsAmong(kNotAgain, rule.name)) return false;
  const bool is_index =
      rule.name == "index" || rule.name == "index_select" || rule.name == "gather";
  return is_index || DropsOut(rule) || IsOf(ElementwiseRules(), rule) || IsOf(MathRules(), rule) ||
         IsOf(NormalizationRules(), rule) || IsOf(ReductionRules(), rule) ||
         IsOf(NormRules(), rule) || IsOf(LossRules(), rule) || IsOf(ViewRules(), rule);
}

// A tensor that eager's autograd keeps.
struct Need {
  int32_t call = 0;
  int32_t value = -1;
  bool is_own_result = false;
  bool is_view = false;  // what is read is a view of the value
};

class Partitioner {
 public:
  Partitioner(const Program& program, const TrainingSettings& settings, size_t model_end)
      : program_(program), settings_(settings), end_(model_end) {
    made_.value_of.resize(program.values.size(), -1);
    made_.is_again.resize(program.values.size());
    for (size_t i = 0; i < end_; ++i) {
      rules_.push_back(&FindOpRule(program.calls[i].op));
      AddOutputs(static_cast<int32_t>(i));
    }
  }

  Partition Run(const Holders& holders) {
    FindNeeds(holders);
    MarkStored();
    FindReaders();
    for (size_t i = 0; i < made_.values.size(); ++i) BanUsedFarApart(i);
    Cut();
    CopyForConvolutions();
    for (size_t i = 0; i < end_; ++i)
      made_.casts_in_backward.push_back(CastsInBackward(static_cast<int32_t>(i)));
    return std::move(made_);
  }

 private:
  ForwardValue& At(int32_t value) { return made_.values[Index(value)]; }

  int32_t NewValue(int32_t maker, int64_t bytes) {
    made_.values.push_back({.maker = maker, .bytes = bytes});
    return static_cast<int32_t>(made_.values.size() - 1);
  }

  // What was there before the model ran costs nothing.
  int32_t ValueOf(NameId name) {
    int32_t& value = made_.value_of[Index(name)];
    if (value < 0) value = NewValue(-1, 0);
    return value;
  }

  void AddOutputs(int32_t index) {
    const AtenCall& call = program_.calls[Index(index)];
    for (const NameId name : call.inputs) {
      if (name != kNoName) At(ValueOf(name)).last_read = index;
    }
    const bool is_view =
        rules_.back()->alias != Alias::kNone && !call.inputs.empty() && call.inputs[0] != kNoName;
    const int32_t mask = SameMask(index);
    if (const int32_t same = mask >= 0 ? mask : SameCast(index); same >= 0) {
      made_.value_of[Index(call.outputs[0])] = same;
      return;
    }
    for (const NameId name : call.outputs) {
      if (name == kNoName) continue;
      if (is_view) views_.insert(name);
      made_.value_of[Index(name)] =
          is_view          ? ValueOf(call.inputs[0])
          : call.made_once ? NewValue(-1, 0)  // a module keeps it
                           : NewValue(index, BytesOf(program_.values[Index(name)].type));
    }
  }

  // fx_graph_cse: what is cast twice to one type is cast once.  -1 where the call is no such cast.
  int32_t SameCast(int32_t index) {
    const AtenCall& call = program_.calls[Index(index)];
    const bool is_cast = rules_.back()->name == "_to_copy" && call.outputs.size() == 1 &&
                         call.inputs[0] != kNoName && call.outputs[0] != kNoName;
    if (!is_cast) return -1;
    const int32_t value = ValueOf(call.inputs[0]);
    const TensorType& from = program_.values[Index(call.inputs[0])].type;
    const bool is_whole = At(value).maker < 0 || At(value).bytes == BytesOf(from);
    if (!is_whole) return -1;
    const TensorType& to = program_.values[Index(call.outputs[0])].type;
    const auto [at, added] = casts_.try_emplace({value, to.dtype, from.dims}, -1);
    if (added) at->second = NewValue(index, BytesOf(to));
    made_.is_again[Index(call.outputs[0])] = !added;
    return at->second;
  }

  // The same of a mask of bools that each layer's attention makes one to be added of.
  int32_t SameMask(int32_t index) {
    const AtenCall& call = program_.calls[Index(index)];
    const auto is_number = [&](NameId name) {
      return name != kNoName && program_.values[Index(name)].type.dims.empty();
    };
    if (rules_.back()->name != "where" || call.outputs[0] == kNoName ||
        !is_number(call.inputs[1]) || !is_number(call.inputs[2]))
      return -1;
    const TensorType& type = program_.values[Index(call.outputs[0])].type;
    const auto [at, added] = masks_.try_emplace({call.inputs[0], type.dtype, type.dims}, -1);
    if (added) at->second = NewValue(index, BytesOf(type));
    made_.is_again[Index(call.outputs[0])] = !added;
    return at->second;
  }

  int32_t ValueOfAux(int32_t index, int aux, int64_t bytes) {
    const auto [at, added] = made_.value_of_aux.try_emplace({index, aux}, -1);
    if (added) at->second = NewValue(index, bytes);
    return at->second;
  }

  bool IsView(NameId name) const { return views_.contains(name); }

  // As eager's autograd has it, which keeps what the same formulas read.
  void FindNeeds(const Holders& holders) {
    std::set<std::pair<int32_t, uint32_t>> seen;
    for (const Holder& holder : holders) {
      if (holder.type != Holder::Type::kSaved || Index(holder.id) >= end_) continue;
      if (seen.insert({holder.id, holder.slot.bits}).second) AddNeed(holder.id, holder.slot);
    }
  }

  void AddNeed(int32_t index, Slots slot) {
    const AtenCall& call = program_.calls[Index(index)];
    for (size_t i = 0; i < call.inputs.size() && i < kMaxInputSlots; ++i) {
      if (slot == In(static_cast<int>(i)) && call.inputs[i] != kNoName)
        needs_.push_back({index, ValueOf(call.inputs[i]), false, IsView(call.inputs[i])});
    }
    for (size_t i = 0; i < call.outputs.size() && i < kMaxOutputSlots; ++i) {
      if (slot == Out(static_cast<int>(i)) && call.outputs[i] != kNoName)
        needs_.push_back({index, ValueOf(call.outputs[i]), true});
    }
    for (int aux = 0; aux < 3; ++aux) {
      if (slot == Aux(aux)) needs_.push_back({index, ValueOfAux(index, aux, AuxBytes(index, aux))});
    }
  }

  int64_t AuxBytes(int32_t index, int aux) {
    const OpRule& rule = *rules_[Index(index)];
    if (rule.aux[Index(aux)].type == nullptr) return 0;
    const TensorType type =
        rule.aux[Index(aux)].type(CallTypes(program_, program_.calls[Index(index)], settings_));
    return IsAmong(kInBytes, rule.name) ? Numel(type.dims) : BytesOf(type);
  }

  void Store(NameId name) {
    const int32_t value = ValueOf(name);
    is_materialized_.resize(made_.values.size());
    At(value).is_stored = true;
    if (!IsView(name)) is_materialized_[Index(value)] = true;
  }

  // Kernels that are not fused write and read memory; what the model returns is there, too.
  void MarkStored() {
    is_materialized_.resize(made_.values.size());
    for (size_t i = 0; i < end_; ++i) {
      if (IsFusible(*rules_[i])) continue;
      for (const NameId name : program_.calls[i].inputs) {
        if (name != kNoName) Store(name);
      }
    }
    for (size_t i = 0; i < made_.values.size(); ++i) {
      ForwardValue& value = made_.values[i];
      if (value.maker < 0 || IsFusible(*rules_[Index(value.maker)])) continue;
      value.is_stored = is_materialized_[i] = true;
    }
    for (const NameId name : program_.outputs) Store(name);
  }

  // By value: the calls that read it, in their order.
  void FindReaders() {
    readers_.resize(made_.values.size());
    is_banned_.resize(end_);
    for (size_t i = 0; i < end_; ++i) {
      if (rules_[i]->alias != Alias::kNone) continue;
      for (const NameId name : program_.calls[i].inputs) {
        if (name == kNoName) continue;
        std::vector<size_t>& readers = readers_[Index(ValueOf(name))];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
      }
    }
  }

  // is_fusible, of a value and who reads it.
  bool AreFusible(const ForwardValue& value, size_t reader) const {
    if (rules_[reader]->name == "cat") return true;
    return value.maker >= 0 && IsFusible(*rules_[Index(value.maker)]) && IsFusible(*rules_[reader]);
  }

  // ban_if_used_far_apart: who reads a value behind a kernel that is not fused with those that read
  // it before is not computed again.
  void BanUsedFarApart(size_t value) {
    const std::vector<size_t>& readers = readers_[value];
    if (readers.size() < 2 || made_.values[value].maker < 0) return;
    const size_t first = FirstUnfusible(readers);
    for (const size_t reader : readers) {
      if (reader > first && AreFusible(made_.values[value], reader)) is_banned_[reader] = true;
    }
  }

  // find_first_unfusible, of these and what reads their results, up to the last of these.
  size_t FirstUnfusible(const std::vector<size_t>& readers) const {
    std::set<std::pair<size_t, bool>>
        waiting;  // calls, and whether they are fused with what led there
    for (const size_t reader : readers) waiting.insert({reader, true});
    for (; !waiting.empty(); waiting.erase(waiting.begin())) {
      const auto [call, is_fused] = *waiting.begin();
      if (!is_fused) return call;
      for (const NameId name : program_.calls[call].outputs) {
        if (name == kNoName) continue;
        const int32_t value = made_.value_of[Index(name)];
        for (const size_t reader : readers_[Index(value)]) {
          if (reader <= readers.back() && reader > call)
            waiting.insert({reader, AreFusible(made_.values[Index(value)], reader)});
        }
      }
    }
    return readers.back();
  }

  // ban_if_reduction: what is four times smaller than what it is made of is kept.
  bool IsReduction(size_t call, int64_t bytes) {
    int64_t read = 0;
    for (const NameId name : program_.calls[call].inputs) {
      if (name != kNoName) read += BytesOf(program_.values[Index(name)].type);
    }
    return 4 * bytes < read;
  }

  // Given tensors that convolutions read in channels_last: what calls make is made so.
  void CopyForConvolutions() {
    std::set<NameId> copied;
    for (const auto& [call, name] : ReadInChannelsLast(program_, end_)) {
      const int32_t value = ValueOf(name);
      if (At(value).maker >= 0 || !copied.insert(name).second) continue;
      bool is_needed = false;
      for (const Need& need : needs_)
        is_needed = is_needed || (need.call == call && need.value == value);
      made_.extras.emplace(call, ExtraTensor{program_.values[Index(name)].type, is_needed});
    }
  }

  int32_t InOf(size_t value) const { return static_cast<int32_t>(2 + 2 * value); }
  int32_t OutOf(size_t value) const { return InOf(value) + 1; }

  void Cut() {
    for (size_t i = 0; i < 2 * made_.values.size(); ++i) cut_.AddNode();
    for (size_t i = 0; i < made_.values.size(); ++i) Connect(i);
    for (const Need& need : needs_) Connect(need);
    const std::vector<bool> reaches = cut_.SideOfSink();
    for (size_t i = 0; i < made_.values.size(); ++i) {
      ForwardValue& value = made_.values[i];
      const bool is_cut = !reaches[Index(InOf(i))] && reaches[Index(OutOf(i))];
      const auto view = node_of_view_.find(static_cast<int32_t>(i));
      const bool is_seen = view != node_of_view_.end() && !reaches[Index(view->second)];
      value.is_kept = value.maker >= 0 && value.bytes > 0 && (is_cut || is_seen);
    }
    for (const auto& [gate, value] : gates_) {
      if (!reaches[Index(gate)]) KeepSigns(value);
    }
  }

  // Instead of the value, or beside it where a kernel that is not fused reads a view of that.
  void KeepSigns(int32_t index) {
    ForwardValue& value = At(index);
    const TensorType& type = program_.values[Index(gate_names_[index])].type;
    if (value.is_kept) {
      made_.extras.emplace(value.maker, ExtraTensor{{DType::kBool, type.dims}, true});
    } else {
      value.is_kept = true;
      value.bytes = Numel(type.dims);
    }
  }

  // get_node_weight: what is written to memory anyway costs half of what is written for backward.
  void Connect(size_t index) {
    const ForwardValue& value = made_.values[index];
    cut_.AddEdge(InOf(index), OutOf(index),
                 is_materialized_[index] ? value.bytes : 2 * value.bytes);
    if (value.maker < 0) return cut_.AddEdge(MinCut::kSource, InOf(index), MinCut::kUncuttable);
    const OpRule& rule = *rules_[Index(value.maker)];
    const bool is_aux = IsAux(index, value.maker);
    const size_t maker = Index(value.maker);
    if (!IsFusible(rule) || is_banned_[maker] || (is_aux && DropsOut(rule)) ||
        IsReduction(maker, value.bytes)) {
      cut_.AddEdge(MinCut::kSource, InOf(index), MinCut::kUncuttable);
      return;
    }
    for (const NameId name : program_.calls[Index(value.maker)].inputs) {
      if (name != kNoName)
        cut_.AddEdge(OutOf(Index(ValueOf(name))), InOf(index), MinCut::kUncuttable);
    }
    const auto mask = made_.value_of_aux.find({value.maker, 0});
    if (!is_aux && DropsOut(rule) && mask != made_.value_of_aux.end())
      cut_.AddEdge(OutOf(Index(mask->second)), InOf(index), MinCut::kUncuttable);
  }

  bool IsAux(size_t index, int32_t maker) const {
    for (int aux = 0; aux < 3; ++aux) {
      const auto found = made_.value_of_aux.find({maker, aux});
      if (found != made_.value_of_aux.end() && Index(found->second) == index) return true;
    }
    return false;
  }

  // Whether backward's kernels read casts of what the call reads in fp32: both passes are traced
  // under the autocast that is around the model, from which the call itself was spared (a part of
  // scaled_dot_product_attention).
  bool CastsInBackward(int32_t index) const {
    const AtenCall& call = program_.calls[Index(index)];
    return AutocastType(settings_.precision) != DType::kUndefined &&
           rules_[Index(index)]->autocast == AutocastPolicy::kLower && call.inputs[0] != kNoName &&
           program_.values[Index(call.inputs[0])].type.dtype == DType::kFloat32;
  }

  // is_materialized_backwards: what a kernel that is not fused reads then is never computed again.
  void Connect(const Need& need) {
    const OpRule& rule = *rules_[Index(need.call)];
    const size_t value = Index(need.value);
    if (!IsFusible(rule) && !CastsInBackward(need.call)) {
      cut_.AddEdge(MinCut::kSource, InOf(value), MinCut::kUncuttable);
      if (need.is_view && !is_materialized_[value]) return ConnectView(need.value);
    } else if (need.is_own_result && IsAmong(kSignReaders, rule.name)) {
      return ConnectGate(need);
    }
    cut_.AddEdge(OutOf(value), MinCut::kSink, MinCut::kUncuttable);
  }

  // The view, which such a kernel reads, costs half of the value, which only fused ones do.
  void ConnectView(int32_t value) {
    const auto [at, added] = node_of_view_.try_emplace(value, -1);
    if (!added) return;
    at->second = cut_.AddNode();
    cut_.AddEdge(OutOf(Index(value)), at->second, MinCut::kUncuttable);
    cut_.AddEdge(at->second, MinCut::kSink, At(value).bytes);
  }

  void ConnectGate(const Need& need) {
    const NameId name = program_.calls[Index(need.call)].outputs[0];
    const int64_t bytes = Numel(program_.values[Index(name)].type.dims);
    const int32_t gate = cut_.AddNode();
    cut_.AddEdge(OutOf(Index(need.value)), gate, MinCut::kUncuttable);
    cut_.AddEdge(gate, MinCut::kSink, 2 * bytes);
    gates_.emplace_back(gate, need.value);
    gate_names_[need.value] = name;
  }

  const Program& program_;
  const TrainingSettings& settings_;
  const size_t end_;
  std::vector<const OpRule*> rules_;  // by call
  std::vector<Need> needs_;
  std::vector<std::vector<size_t>> readers_;                   // by value
  std::map<std::tuple<int32_t, DType, Dims>, int32_t> casts_;  // of values
  std::map<std::tuple<NameId, DType, Dims>, int32_t> masks_;   // of masks of bools
  std::vector<bool> is_banned_;                                // by call: from being computed again
  std::vector<std::pair<int32_t, int32_t>> gates_;             // node and value
  std::map<int32_t, NameId> gate_names_;                       // by value
  std::set<NameId> views_;
  std::vector<bool> is_materialized_;        // by value, as partitioners.py has it
  std::map<int32_t, int32_t> node_of_view_;  // by value
  MinCut cut_;
  Partition made_;
};

}  // namespace

std::vector<bool> AreFused(const Program& program, size_t model_end) {
  std::vector<bool> are_fused(program.calls.size());
  for (size_t i = 0; i < model_end; ++i) are_fused[i] = IsFusible(FindOpRule(program.calls[i].op));
  return are_fused;
}

Partition PartitionForward(const Program& program, const TrainingSettings& settings,
                           size_t model_end, const Holders& holders) {
  return Partitioner(program, settings, model_end).Run(holders);
}

}  // namespace onnxfit

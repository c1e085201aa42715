#include "estimator/training/compiled_trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/operators/op_rule.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/training/partition.h"

namespace onnxfit {
namespace {

// Of values in one buffer, where an operator always writes over its input, the one that needs it
// most.
int Needs(const ForwardValue& value) { return value.is_kept ? 2 : value.is_stored ? 1 : 0; }

constexpr int32_t kOther = -1;
constexpr int32_t kNotMade = -2;

// The values that buffers hold, by BufferId: kOther for all but those of the compiled forward pass,
// kNotMade for what it has by another name.
std::vector<int32_t> ValuesOfBuffers(const Partition& partition, const Trace& trace,
                                     const Holders& holders) {
  std::vector<int32_t> values(trace.buffers.size(), kOther);
  const auto hold = [&](BufferId buffer, int32_t value) {
    int32_t& held = values[Index(buffer)];
    if (held == kNotMade || value < 0 || partition.values[Index(value)].maker < 0) return;
    if (held < 0 || Needs(partition.values[Index(value)]) > Needs(partition.values[Index(held)]))
      held = value;
  };
  for (const Holder& holder : holders) {
    if (holder.buffer < 0) continue;
    const bool is_name = holder.type == Holder::Type::kName || holder.type == Holder::Type::kCache;
    if (is_name && !holder.is_view && partition.is_again[Index(holder.id)]) {
      values[Index(holder.buffer)] = kNotMade;
    } else if (is_name) {
      hold(holder.buffer, partition.value_of[Index(holder.id)]);
    }
    for (int aux = 0; aux < 3 && holder.type == Holder::Type::kSaved; ++aux) {
      const auto found = partition.value_of_aux.find({holder.id, aux});
      if (holder.slot == Aux(aux) && found != partition.value_of_aux.end())
        hold(holder.buffer, found->second);
    }
  }
  return values;
}

class Compiler {
 public:
  Compiler(const Program& program, const TrainingSettings& settings, size_t model_end, Trace& eager,
           const Holders& holders)
      : program_(program),
        partition_(PartitionForward(program, settings, model_end, holders)),
        eager_(eager),
        value_of_(ValuesOfBuffers(partition_, eager, holders)),
        lower_(AutocastType(settings.precision)) {
    for (size_t i = 0; i < eager.labels.size(); ++i) labels_.try_emplace(eager.labels[i], i);
    for (size_t i = 0; i < program.calls.size(); ++i)
      call_labels_.push_back(LabelOf(static_cast<int32_t>(i)));
    FindScratch(program, model_end);
    for (size_t i = 0; i < model_end; ++i) {
      if (partition_.casts_in_backward[i]) lowered_.insert(call_labels_[i]);
    }
    for (const NameId name : program.outputs) outputs_.insert(partition_.value_of[Index(name)]);
  }

  // By event of eager's: how many there are before it in the result.
  std::vector<int64_t> Run(std::vector<Event>& events) {
    std::vector<int64_t> places;
    for (const Event& event : eager_.events) {
      places.push_back(static_cast<int64_t>(events.size()));
      if (event.type == Event::Type::kPhase) Enter(event, events);
      if (!IsDropped(event)) events.push_back(event);
      if (event.type == Event::Type::kAt) Pass(event.id, events);
      if (event.type == Event::Type::kAlloc) Note(event.id);
      if (event.type == Event::Type::kAlloc && is_lowered_) Lower(event.id);
    }
    places.push_back(static_cast<int64_t>(events.size()));
    return places;
  }

 private:
  const ForwardValue* ValueAt(BufferId buffer) const {
    const int32_t value = Index(buffer) < value_of_.size() ? value_of_[Index(buffer)] : kOther;
    return value < 0 ? nullptr : &partition_.values[Index(value)];
  }

  // Reductions, sorts and sums into rows are Inductor's own, without ATen's places for their parts.
  void FindScratch(const Program& program, size_t model_end) {
    constexpr std::string_view kScratch = ".scratch";
    std::set<std::string_view> own;
    for (size_t i = 0; i < model_end; ++i) own.insert(program.calls[i].where);
    for (size_t i = 0; i < program.calls.size(); ++i) {
      if (i >= model_end || IsAttention(program.calls[i].op)) own.erase(program.calls[i].where);
    }
    for (const std::string& label : eager_.labels) {
      const std::string_view text = label;
      is_scratch_.push_back(text.ends_with(kScratch) &&
                            own.contains(text.substr(0, text.size() - kScratch.size())));
    }
  }

  static bool IsAttention(std::string_view op) {
    const std::span<const OpRule> rules = AttentionRules();
    return std::ranges::any_of(rules, [&](const OpRule& rule) { return rule.name == op; });
  }

  bool IsOfReduction(BufferId id) const {
    const Buffer& buffer = eager_.buffers[Index(id)];
    return buffer.dtype == DType::kUint8 && is_scratch_[Index(buffer.label)];
  }

  static bool HasBuffer(const Event& event) {
    return event.type == Event::Type::kAlloc || event.type == Event::Type::kFree ||
           event.type == Event::Type::kKind;
  }

  bool IsDropped(const Event& event) {
    if (!HasBuffer(event)) return false;
    if (value_of_[Index(event.id)] == kNotMade || IsOfReduction(event.id)) return true;
    const ForwardValue* value = ValueAt(event.id);
    if (value == nullptr) return false;
    if (!value->is_kept && !value->is_stored) return true;
    if (freed_.contains(event.id)) return true;
    if (event.type != Event::Type::kFree) return false;
    if (value->last_read >= 0) passing_.erase({value->last_read, event.id});
    const bool waits = value->is_kept && fresh_.contains(event.id);
    if (waits) waiting_.emplace(LabelOf(value->maker), event.id);
    return waits;
  }

  // What is kept has its own size; what is not goes behind its last reader.
  void Note(BufferId buffer) {
    const ForwardValue* value = ValueAt(buffer);
    if (value == nullptr || phase_ != Phase::kForward) return;
    fresh_.insert(buffer);
    if (value->is_kept) eager_.buffers[Index(buffer)].bytes = value->bytes;
    const bool is_output = outputs_.contains(value_of_[Index(buffer)]);
    if (value->is_stored && !value->is_kept && !is_output && value->last_read >= 0)
      passing_.emplace(value->last_read, buffer);
  }

  // Where backward's products are of the lower type, kernels between them write what these read.
  void Lower(BufferId id) {
    Buffer& buffer = eager_.buffers[Index(id)];
    if (buffer.dtype != DType::kFloat32) return;
    buffer.bytes = BytesOf(TensorType{lower_, buffer.dims});
    buffer.dtype = lower_;
  }

  int32_t LabelOf(int32_t call) const {
    const auto found = labels_.find(program_.calls[Index(call)].where);
    return found == labels_.end() ? -1 : static_cast<int32_t>(found->second);
  }

  void Free(BufferId buffer, std::vector<Event>& events) {
    events.push_back({.type = Event::Type::kFree, .id = buffer});
    freed_.insert(buffer);
  }

  // An operator begins, whose name a tensor may have, too.
  void Pass(int32_t id, std::vector<Event>& events) {
    const auto label = static_cast<int32_t>(labels_.at(eager_.labels[Index(id)]));
    is_lowered_ = phase_ == Phase::kBackward && lowered_.contains(label);
    if (phase_ == Phase::kBackward) {
      const auto [first, last] = waiting_.equal_range(label);
      for (auto at = first; at != last; ++at) Free(at->second, events);
      waiting_.erase(first, last);
    }
    if (phase_ != Phase::kForward) return;
    for (size_t i = call_; i < call_labels_.size(); ++i) {
      if (call_labels_[i] != label) continue;
      call_ = i;
      MakeExtras(static_cast<int32_t>(i), events);
      break;
    }
    while (!passing_.empty() && Index(passing_.begin()->first) < call_) {
      Free(passing_.begin()->second, events);
      passing_.erase(passing_.begin());
    }
  }

  // What is not kept goes behind the call.
  void MakeExtras(int32_t call, std::vector<Event>& events) {
    const auto [first, last] = partition_.extras.equal_range(call);
    if (first == last || !has_extras_.insert(call).second) return;
    for (auto at = first; at != last; ++at) {
      const TensorType& type = at->second.type;
      const auto buffer = static_cast<BufferId>(eager_.buffers.size());
      eager_.buffers.push_back(
          {.bytes = BytesOf(type), .label = LabelOf(call), .dtype = type.dtype, .dims = type.dims});
      events.push_back({.type = Event::Type::kAlloc, .kind = Kind::kActivation, .id = buffer});
      if (at->second.is_kept) {
        waiting_.emplace(LabelOf(call), buffer);
      } else {
        passing_.emplace(call, buffer);
      }
    }
  }

  void Enter(const Event& event, std::vector<Event>& events) {
    if (phase_ == Phase::kBackward) {
      for (const auto& [label, buffer] : waiting_) Free(buffer, events);
      waiting_.clear();
    }
    passing_.clear();
    is_lowered_ = false;
    fresh_.clear();
    has_extras_.clear();
    phase_ = event.phase;
    call_ = 0;
  }

  const Program& program_;
  const Partition partition_;
  Trace& eager_;
  const std::vector<int32_t> value_of_;
  std::unordered_map<std::string_view, size_t> labels_;
  std::vector<int32_t> call_labels_;
  std::vector<bool> is_scratch_;  // by label
  const DType lower_;             // autocast's
  std::set<int32_t> lowered_;     // labels of what backward runs in it, though forward does not
  bool is_lowered_ = false;
  std::set<int32_t> outputs_;     // values
  std::set<BufferId> fresh_;      // of the forward pass that runs
  std::set<int32_t> has_extras_;  // calls of the same
  std::set<BufferId> freed_;
  std::multimap<int32_t, BufferId> waiting_;        // by label: freed in backward
  std::set<std::pair<int32_t, BufferId>> passing_;  // by the call behind which it goes
  Phase phase_ = Phase::kSetup;
  size_t call_ = 0;  // of the forward pass
};

// Calls of backward that are one kernel: what only they see is not made, and what they read last
// makes room for what they write.
class BackwardFusion {
 public:
  BackwardFusion(const Program& program, size_t model_end, const Trace& trace) {
    std::unordered_map<std::string_view, bool> by_name;
    const std::vector<bool> are_fused = AreFused(program, model_end);
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const auto [at, added] = by_name.try_emplace(program.calls[i].where, true);
      at->second = at->second && are_fused[i];
    }
    for (const std::string& label : trace.labels) {
      const auto found = by_name.find(label);
      is_fused_.push_back(found != by_name.end() && found->second);
    }
  }

  // By event: how many there are before it in the result.
  std::vector<int64_t> Run(const std::vector<Event>& from, std::vector<Event>& to) {
    std::vector<int64_t> places;
    bool is_inside = false;
    bool is_backward = false;
    for (const Event& event : from) {
      const bool begins = event.type == Event::Type::kPhase || event.type == Event::Type::kAt;
      if (event.type == Event::Type::kPhase) is_backward = event.phase == Phase::kBackward;
      if (begins) {
        const bool is_next =
            is_backward && event.type == Event::Type::kAt && is_fused_[Index(event.id)];
        if (is_inside && !is_next) Flush(to);
        is_inside = is_next;
      }
      places.push_back(static_cast<int64_t>(to.size()));
      if (is_inside && !begins) {
        Take(event, to);
      } else {
        to.push_back(event);
      }
    }
    places.push_back(static_cast<int64_t>(to.size()));
    return places;
  }

 private:
  void Take(const Event& event, std::vector<Event>& to) {
    const bool is_new = born_.contains(event.id);
    if (event.type == Event::Type::kFree && is_new) {
      std::erase_if(made_, [&](const Event& made) { return made.id == event.id; });
    } else if (event.type == Event::Type::kFree) {
      to.push_back(event);
    } else {
      made_.push_back(event);
      if (event.type == Event::Type::kAlloc) born_.insert(event.id);
    }
  }

  void Flush(std::vector<Event>& to) {
    to.insert(to.end(), made_.begin(), made_.end());
    made_.clear();
    born_.clear();
  }

  std::vector<bool> is_fused_;  // by label
  std::vector<Event> made_;     // what comes behind what goes
  std::set<BufferId> born_;
};

}  // namespace

bool IsCompiled(const TrainingSettings& settings) {
  return settings.compile == Compiling::kInductor && settings.mode == Mode::kTrain &&
         settings.checkpoint.empty() && settings.ranks.strategy == Strategy::kNone;
}

void CheckCompilable(const Program& program, const TrainingSettings& settings) {
  if (settings.compile == Compiling::kNone || settings.mode == Mode::kEval) return;
  if (!settings.checkpoint.empty() || CheckpointedSpans(program, {}).empty()) return;
  throw Error({.where = "--compile",
               .text = "expected a model without torch.utils.checkpoint in it, beside which "
                       "compiled code is not known here",
               .hint = "--compile none"});
}

Trace CompileTrace(const Program& program, const TrainingSettings& settings, size_t model_end,
                   Trace eager, Holders& holders) {
  std::vector<Event> kept;
  std::vector<Event> events;
  const std::vector<int64_t> places =
      Compiler(program, settings, model_end, eager, holders).Run(kept);
  const std::vector<int64_t> fused = BackwardFusion(program, model_end, eager).Run(kept, events);
  const auto move = [&](int64_t& place) {
    if (place >= 0) place = fused[Index(places[Index(place)])];
  };
  for (Holder& holder : holders) {
    move(holder.from);
    move(holder.until);  // -1: for good
  }
  for (int64_t& place : eager.cache_emptied_at) move(place);
  eager.events = std::move(events);
  return eager;
}

}  // namespace onnxfit

#include "estimator/observed/observe.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/interned.h"
#include "estimator/base/module_names.h"

namespace onnxfit {
namespace {

// "layer.3" of module "encoder.layer.3@1" in "encoder".
std::string_view NameInCaller(const ModuleTree& modules, ModuleId module) {
  std::string_view name = modules.NameOf(module);
  name = name.substr(0, name.find('@'));
  std::string_view caller = modules.NameOf(modules.CallerOf(module));
  caller = caller.substr(0, caller.find('@'));
  const bool is_below =
      !caller.empty() && name.size() > caller.size() + 1 && name.starts_with(caller);
  if (is_below && name[caller.size()] == '.') name.remove_prefix(caller.size() + 1);
  return Interned(name);
}

// The line of the forward at `level` around the call; one that calls super().forward has a frame
// more.
uint32_t LineOf(const Program& program, const AtenCall& call, size_t level) {
  const size_t around = program.modules.DepthOf(call.module);
  const size_t frames = call.frames.size();
  if (level >= around || frames + level < around) return 0;
  const size_t frame = frames >= around ? level : frames + level - around;
  if (frame >= frames || call.frames[frame] == kNoStatement) return 0;
  const std::string& text = program.source.At(call.frames[frame]).text;
  return text.empty() ? 0 : HashOfLine(text);
}

bool HasFirst(const AtenCall& call) {
  return !call.inputs.empty() && call.inputs[0] != kNoName && !call.outputs.empty() &&
         call.outputs[0] != kNoName;
}

bool ReturnsFirst(const AtenCall& call) { return call.returns_first && HasFirst(call); }

// Until when values were seen to live, as the tensors that they are: one that a call writes in
// place, or returns as it is, goes on under another name.
struct ObservedEnds {
  std::map<NameId, int64_t> calls;        // those of the step before are none of them
  std::set<NameId> returned;              // by the model
  std::map<NameId, int64_t> overwritten;  // by the call, whose result is the tensor from then on

  explicit ObservedEnds(const Program& program)
      : returned(program.outputs.begin(), program.outputs.end()) {
    int64_t behind = 0;  // a function's backward, which no file shows, is behind its forward
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const AtenCall& call = program.calls[i];
      if (call.function == FunctionPart::kNone) behind = static_cast<int64_t>(i);
      if (WritesOverFirst(call)) overwritten[call.inputs[0]] = static_cast<int64_t>(i);
      for (const NameId name : program.calls[i].dies) {
        const bool is_seen = program.keepers[Index(name)].by == NameKeeper::By::kObserved;
        if (is_seen) calls[name] = behind;
      }
    }
    for (auto call = program.calls.rbegin(); call != program.calls.rend(); ++call) {
      if (WritesOverFirst(*call) || ReturnsFirst(*call)) GoOn(call->inputs[0], call->outputs[0]);
    }
  }

 private:
  void GoOn(NameId before, NameId after) {
    if (returned.contains(after)) returned.insert(before);
    const auto end = calls.find(after);
    if (end == calls.end()) {
      calls.erase(before);
    } else if (const auto own = calls.find(before); own != calls.end()) {
      own->second = std::max(own->second, end->second);
    }
  }
};

class Observer {
 public:
  Observer(const Program& program, SkeletonRuns run)
      : program_(program),
        run_(run),
        runs_(program),
        forwards_(ForwardsOf(program, runs_)),
        ends_(program) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId name : program.calls[i].inputs) {
        if (name != kNoName) readers_[name].push_back(static_cast<int64_t>(i));
      }
    }
  }

  std::vector<Skeleton> Observe() {
    for (size_t run = 0; run < runs_.all().size(); ++run) {
      if (runs_.all()[run].caller < 0) FollowRun(static_cast<int32_t>(run));
    }
    return std::move(made_);
  }

 private:
  using Made = std::map<NameId, std::pair<int32_t, int32_t>>;  // step and result

  // What the run leaves to its caller.
  std::vector<NameId> FollowRun(int32_t run) {
    const ForwardOfRun& forward = forwards_[Index(run)];
    Skeleton skeleton = {.class_name = forward.class_name,
                         .steps = forward.steps,
                         .values = {},
                         .runs = static_cast<uint8_t>(run_)};
    if (runs_.all()[Index(run)].caller < 0) skeleton.runs |= kAsModel;
    std::vector<NameId> left;
    Made made;
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      const int32_t child = forward.children[step];
      const std::vector<NameId> values =
          child < 0 ? program_.calls[Index(forward.calls[step])].outputs : FollowRun(child);
      if (child >= 0) skeleton.steps[step].id = IdOf(Shortened(made_.back()));
      if (MayBeLost(forward.steps[step])) NoteLoss(forward, step, made, skeleton);
      for (size_t result = 0; result < values.size(); ++result) {
        const NameId value = values[result];
        if (value == kNoName) continue;
        made.try_emplace(value, static_cast<int32_t>(step), static_cast<int32_t>(result));
        if (IsKept(value) || IsOverwrittenIn(run, value)) continue;
        const int32_t behind = DiesBehind(forward, step, value);
        if (behind == SkeletonValue::kLeft) left.push_back(value);
        skeleton.values.push_back(
            {static_cast<int32_t>(step), static_cast<int32_t>(result), behind});
      }
    }
    made_.push_back(std::move(skeleton));
    return left;
  }

  // Of a cast its type, and of all that files may lack what they read and what reads them.
  void NoteLoss(const ForwardOfRun& forward, size_t step, const Made& made, Skeleton& skeleton) {
    const AtenCall& call = program_.calls[Index(forward.calls[step])];
    if (!HasFirst(call)) return;
    if (IsCast(forward.steps[step])) skeleton.steps[step].cast_to = CastTo(call);
    const auto at = static_cast<int32_t>(step);
    if (const auto maker = made.find(call.inputs[0]); maker != made.end()) {
      skeleton.flows.push_back({at, maker->second.first - at, maker->second.second});
    }
    const auto readers = readers_.find(call.outputs[0]);
    if (readers == readers_.end()) return;
    int32_t before = at;
    for (const int64_t reader : readers->second) {
      const auto behind = std::ranges::lower_bound(forward.calls, reader);
      if (behind == forward.calls.end()) break;
      const auto place = static_cast<int32_t>(behind - forward.calls.begin());
      if (place == before) continue;
      const std::vector<NameId>& read = program_.calls[Index(reader)].inputs;
      const bool is_child = forward.children[Index(place)] >= 0;
      const auto operand = std::ranges::find(read, call.outputs[0]) - read.begin();
      skeleton.flows.push_back({at, place - at, is_child ? 0 : static_cast<int32_t>(operand)});
      before = place;
    }
  }

  uint8_t CastTo(const AtenCall& call) const {
    if (run_ == kTrainRun || run_ == kEvalRun) return 0;  // most do nothing then
    const DType type = program_.values[Index(call.outputs[0])].type.dtype;
    if (!IsFloat(type)) return 0;
    return static_cast<uint8_t>(BitsOf(type));
  }

  // Whether something holds it beyond the step: a buffer that is written in place, an attribute.
  bool IsKept(NameId value) const {
    return !ends_.calls.contains(value) && !ends_.returned.contains(value);
  }

  bool IsOverwrittenIn(int32_t run, NameId value) const {
    const auto by = ends_.overwritten.find(value);
    return by != ends_.overwritten.end() && by->second <= runs_.all()[Index(run)].last;
  }

  // The step of `forward` behind which a value dies that step `step` makes.
  int32_t DiesBehind(const ForwardOfRun& forward, size_t step, NameId value) const {
    const auto end = ends_.calls.find(value);
    if (end == ends_.calls.end() || end->second > forward.calls.back()) return SkeletonValue::kLeft;
    const auto behind = std::ranges::lower_bound(forward.calls, end->second);
    return std::max(static_cast<int32_t>(step),
                    static_cast<int32_t>(behind - forward.calls.begin()));
  }

  const Program& program_;
  const SkeletonRuns run_;
  const ModuleRuns runs_;
  const std::vector<ForwardOfRun> forwards_;
  const ObservedEnds ends_;
  std::map<NameId, std::vector<int64_t>> readers_;
  std::vector<Skeleton> made_;
};

}  // namespace

namespace {

// x[:, 0, :] is a selection, and in exports a slice of all before it and behind it.
bool SlicesAll(const Program& program, const AtenCall& call) {
  if (call.op != "slice" || !HasFirst(call)) return false;
  return program.values[Index(call.inputs[0])].type.dims ==
         program.values[Index(call.outputs[0])].type.dims;
}

class ForwardReader {
 public:
  ForwardReader(const Program& program, const ModuleRuns& runs)
      : program_(program), runs_(runs), is_seen_(runs.all().size()), forwards_(runs.all().size()) {
    for (size_t run = 0; run < forwards_.size(); ++run) {
      forwards_[run].class_name = Interned(program.modules.ClassOf(runs.all()[run].module));
    }
    const auto is_model = [&](const ModuleRun& run) {
      return run.caller < 0 && program.modules.NameOf(run.module).empty();
    };
    if (!runs.all().empty() && std::ranges::none_of(runs.all(), is_model)) {
      root_ = static_cast<int32_t>(forwards_.size());
      forwards_.emplace_back();
    }
  }

  std::vector<ForwardOfRun> Read() {
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const AtenCall& call = program_.calls[i];
      const bool is_part = call.function != FunctionPart::kNone;
      if (call.is_autocasts || is_part || SlicesAll(program_, call)) continue;
      const auto at = static_cast<int64_t>(i);
      const int32_t inner = runs_.RunOf(at);
      AddRuns(inner, at);
      AddCall(inner, at);
    }
    NoteLeaves();
    return std::move(forwards_);
  }

 private:
  // Those that begin with the call, the outer ones first.
  void AddRuns(int32_t inner, int64_t at) {
    std::vector<int32_t> entered;
    for (int32_t run = inner; run >= 0 && is_seen_[Index(run)] == 0;
         run = runs_.all()[Index(run)].caller) {
      entered.push_back(run);
    }
    for (auto run = entered.rbegin(); run != entered.rend(); ++run) {
      const ModuleRun& it = runs_.all()[Index(*run)];
      is_seen_[Index(*run)] = 1;
      SkeletonStep step = {.key = NameInCaller(program_.modules, it.module),
                           .is_child = true,
                           .class_name = Interned(program_.modules.ClassOf(it.module))};
      if (it.level > 0) step.line = LineOf(program_, program_.calls[Index(at)], it.level - 1);
      Add(it.caller, step, it.last, *run);
    }
  }

  void AddCall(int32_t inner, int64_t at) {
    const AtenCall& call = program_.calls[Index(at)];
    const size_t level = inner < 0 ? 0 : runs_.all()[Index(inner)].level;
    Add(inner,
        {.key = Interned(IsCastCall(call) ? "to" : call.op),
         .class_name = {},
         .line = LineOf(program_, call, level),
         .in_place = WritesOverFirst(call),
         .is_idle = ReturnsFirst(call)},
        at, -1);
  }

  void Add(int32_t run, const SkeletonStep& step, int64_t call, int32_t child) {
    if (run < 0) run = root_;
    if (run < 0) return;
    ForwardOfRun& forward = forwards_[Index(run)];
    forward.steps.push_back(Starred(step));
    forward.calls.push_back(call);
    forward.children.push_back(child);
  }

  void NoteLeaves() {
    const auto is_child = [](int32_t child) { return child >= 0; };
    for (ForwardOfRun& forward : forwards_) {
      for (size_t step = 0; step < forward.steps.size(); ++step) {
        if (forward.children[step] < 0) continue;
        const ForwardOfRun& child = forwards_[Index(forward.children[step])];
        if (std::ranges::any_of(child.children, is_child)) continue;
        forward.steps[step].leaf = child.steps.back().key;
      }
    }
  }

  const Program& program_;
  const ModuleRuns& runs_;
  std::vector<char> is_seen_;  // by run
  std::vector<ForwardOfRun> forwards_;
  int32_t root_ = -1;  // the model's own forward, if it is no run
};

}  // namespace

bool WritesOverFirst(const AtenCall& call) {
  return HasFirst(call) && (call.writes_over_first || call.written_in_place.value_or(false));
}

std::vector<ForwardOfRun> ForwardsOf(const Program& program, const ModuleRuns& runs) {
  return ForwardReader(program, runs).Read();
}

bool IsCastCall(const AtenCall& call) {
  return call.op == "to" || call.op == "type_as" || call.op == "to_other_width";
}

bool IsCast(const SkeletonStep& step) { return !step.is_child && step.key == "to"; }

bool MayBeLost(const SkeletonStep& step) { return step.is_idle || IsCast(step) || IsDropout(step); }

bool MayBeMoved(const SkeletonStep& step) {
  return !step.is_child &&
         (step.key == "view" || step.key == "permute" || step.key == "contiguous");
}

bool MayBeMissing(const SkeletonStep& step, bool is_named) {
  return MayBeLost(step) || (!is_named && MayBeMoved(step));
}

std::vector<Skeleton> SkeletonsOf(const Program& program, SkeletonRuns run) {
  return Observer(program, run).Observe();
}

}  // namespace onnxfit

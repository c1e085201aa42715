#include "estimator/observed/observe.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/base/module_names.h"

namespace onnxfit {
namespace {

// "layer.3" of module "encoder.layer.3@1" in "encoder".
std::string NameInCaller(const ModuleTree& modules, ModuleId module) {
  std::string_view name = modules.NameOf(module);
  name = name.substr(0, name.find('@'));
  std::string_view caller = modules.NameOf(modules.CallerOf(module));
  caller = caller.substr(0, caller.find('@'));
  const bool is_below =
      !caller.empty() && name.size() > caller.size() + 1 && name.starts_with(caller);
  if (is_below && name[caller.size()] == '.') name.remove_prefix(caller.size() + 1);
  return std::string(name);
}

uint32_t HashOfLine(std::string_view text) {
  uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return (hash & 0xFFFFFU) + 1;  // 20 bits: lines of one forward
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
    for (size_t i = 0; i < program.calls.size(); ++i) {
      const AtenCall& call = program.calls[i];
      if (WritesOverFirst(call)) overwritten[call.inputs[0]] = static_cast<int64_t>(i);
      for (const NameId name : program.calls[i].dies) {
        const bool is_seen = program.keepers[Index(name)].by == NameKeeper::By::kObserved;
        if (is_seen) calls[name] = static_cast<int64_t>(i);
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
  explicit Observer(const Program& program)
      : program_(program), runs_(program), forwards_(ForwardsOf(program, runs_)), ends_(program) {}

  std::vector<Skeleton> Observe() {
    for (size_t run = 0; run < forwards_.size(); ++run) {
      if (runs_.all()[run].caller < 0) FollowRun(static_cast<int32_t>(run));
    }
    return std::move(made_);
  }

 private:
  // What the run leaves to its caller.
  std::vector<NameId> FollowRun(int32_t run) {
    const ForwardOfRun& forward = forwards_[Index(run)];
    Skeleton skeleton = {.class_name = forward.class_name, .steps = forward.steps, .values = {}};
    std::vector<NameId> left;
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      const int32_t child = forward.children[step];
      const std::vector<NameId> values =
          child < 0 ? program_.calls[Index(forward.calls[step])].outputs : FollowRun(child);
      for (size_t result = 0; result < values.size(); ++result) {
        if (values[result] == kNoName || IsKept(values[result])) continue;
        if (IsOverwrittenIn(run, values[result])) continue;
        const int32_t behind = DiesBehind(forward, step, values[result]);
        if (behind == SkeletonValue::kLeft) left.push_back(values[result]);
        skeleton.values.push_back(
            {static_cast<int32_t>(step), static_cast<int32_t>(result), behind});
      }
    }
    made_.push_back(std::move(skeleton));
    return left;
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
  const ModuleRuns runs_;
  const std::vector<ForwardOfRun> forwards_;
  const ObservedEnds ends_;
  std::vector<Skeleton> made_;
};

}  // namespace

namespace {

void NoteLeaves(std::vector<ForwardOfRun>& forwards) {
  const auto is_child = [](int32_t child) { return child >= 0; };
  for (ForwardOfRun& forward : forwards) {
    for (size_t step = 0; step < forward.steps.size(); ++step) {
      if (forward.children[step] < 0) continue;
      const ForwardOfRun& child = forwards[Index(forward.children[step])];
      if (std::ranges::any_of(child.children, is_child)) continue;
      forward.steps[step].leaf = child.steps.back().key;
    }
  }
}

}  // namespace

bool WritesOverFirst(const AtenCall& call) {
  return HasFirst(call) && (call.writes_over_first || call.written_in_place.value_or(false));
}

std::vector<ForwardOfRun> ForwardsOf(const Program& program, const ModuleRuns& runs) {
  std::vector<ForwardOfRun> forwards(runs.all().size());
  std::vector<char> is_seen(runs.all().size());
  for (size_t run = 0; run < forwards.size(); ++run) {
    forwards[run].class_name = program.modules.ClassOf(runs.all()[run].module);
  }
  const auto add = [&](int32_t run, SkeletonStep step, int64_t call, int32_t child) {
    if (run < 0) return;
    ForwardOfRun& forward = forwards[Index(run)];
    forward.steps.push_back(std::move(step));
    forward.calls.push_back(call);
    forward.children.push_back(child);
  };
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const AtenCall& call = program.calls[i];
    if (call.is_autocasts) continue;
    const auto at = static_cast<int64_t>(i);
    const int32_t inner = runs.RunOf(at);
    std::vector<int32_t> entered;
    for (int32_t run = inner; run >= 0 && is_seen[Index(run)] == 0;
         run = runs.all()[Index(run)].caller) {
      entered.push_back(run);
    }
    for (auto run = entered.rbegin(); run != entered.rend(); ++run) {
      const ModuleRun& it = runs.all()[Index(*run)];
      is_seen[Index(*run)] = 1;
      SkeletonStep step = {.key = NameInCaller(program.modules, it.module),
                           .is_child = true,
                           .class_name = program.modules.ClassOf(it.module)};
      if (it.level > 0) step.line = LineOf(program, call, it.level - 1);
      add(it.caller, std::move(step), it.last, *run);
    }
    const size_t level = inner < 0 ? 0 : runs.all()[Index(inner)].level;
    add(inner,
        {.key = std::string(call.op),
         .class_name = {},
         .line = LineOf(program, call, level),
         .in_place = WritesOverFirst(call)},
        at, -1);
  }
  NoteLeaves(forwards);
  return forwards;
}

std::vector<Skeleton> SkeletonsOf(const Program& program) { return Observer(program).Observe(); }

}  // namespace onnxfit

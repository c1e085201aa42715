#include "estimator/program/span_values.h"

#include <cstdint>
#include <unordered_set>

#include "estimator/base/index.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/passed_names.h"
#include "estimator/program/statements.h"

namespace onnxfit {
namespace {

// By name: the call behind which it dies, that behind all for those that live on.
std::vector<int64_t> Deaths(const Program& program) {
  std::vector<int64_t> deaths(program.values.size(), static_cast<int64_t>(program.calls.size()));
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (const NameId name : program.calls[i].dies) deaths[Index(name)] = static_cast<int64_t>(i);
  }
  return deaths;
}

// "self.attn = …", which lets go of nothing within a step.
std::unordered_set<NameId> Attributes(const Program& program,
                                      const std::vector<ModuleCall>& forwards,
                                      const std::vector<int64_t>& deaths) {
  std::unordered_set<NameId> attributes;
  for (const ModuleCall& forward : forwards) {
    for (const Statement& statement : forward.statements) {
      if (statement.targets.empty() || !statement.targets[0].starts_with("self.")) continue;
      for (const NameId name : program.calls[Index(statement.last)].outputs) {
        const bool lives_on = name != kNoName && deaths[Index(name)] == std::ssize(program.calls);
        if (lives_on) attributes.insert(name);
      }
    }
  }
  return attributes;
}

class ValueReader {
 public:
  explicit ValueReader(const Program& program)
      : program_(program),
        runs_(program),
        forwards_(FindModuleCalls(program, runs_)),
        deaths_(Deaths(program)),
        attributes_(Attributes(program, forwards_, deaths_)) {
    own_.insert(program.placement.begin(), program.placement.end());
    own_.insert(program.cached_casts.begin(), program.cached_casts.end());
    for (const StoredItem& item : program.stored) {
      own_.insert(item.values.begin(), item.values.end());
    }
  }

  SpanValues Read(const CallSpan& span) const {
    SpanValues values;
    std::unordered_set<NameId> known = own_;
    for (int32_t i = span.first; i <= span.last; ++i) {
      const AtenCall& call = program_.calls[Index(i)];
      for (const NameId name : call.inputs) {
        if (name != kNoName && known.insert(name).second) values.given.push_back(name);
      }
      for (const NameId name : call.outputs) {
        if (name != kNoName && known.insert(name).second) AddMade(name, call, span, values);
      }
    }
    const Passed passed = PassedTo(span);
    values.by_position = passed.by_position;
    for (const NameId name : passed.names) {
      if (known.insert(name).second) values.given.push_back(name);
    }
    values.items = ItemsGivenTo(span);
    return values;
  }

 private:
  // Those in the dicts of the forwards around it.
  std::vector<int32_t> ItemsGivenTo(const CallSpan& span) const {
    std::vector<int32_t> items;
    for (int32_t run = CallerOf(span); run >= 0; run = runs_.all()[Index(run)].caller) {
      for (size_t i = 0; i < program_.stored.size(); ++i) {
        const bool is_given = program_.stored[i].owner == runs_.all()[Index(run)].module;
        if (is_given) items.push_back(static_cast<int32_t>(i));
      }
    }
    return items;
  }

  // By the forward around the span's module.
  Passed PassedTo(const CallSpan& span) const {
    int32_t run = CallerOf(span);
    if (run < 0) return {};
    Passed passed = PassedNames(program_, forwards_[Index(run)], span.first);
    for (run = runs_.all()[Index(run)].caller; run >= 0; run = runs_.all()[Index(run)].caller) {
      const std::vector<NameId> more = PassedDown(program_, forwards_[Index(run)], span.first);
      passed.names.insert(passed.names.end(), more.begin(), more.end());
    }
    return passed;
  }

  // The run of the forward around the span's module, -1 without one.
  int32_t CallerOf(const CallSpan& span) const {
    int32_t run = runs_.RunOf(span.first);
    bool is_own = false;
    while (run >= 0 && !is_own && IsWithin(runs_.all()[Index(run)], span)) {
      is_own = span.module != kOutside && runs_.all()[Index(run)].module == span.module;
      run = runs_.all()[Index(run)].caller;
    }
    return run;
  }

  static bool IsWithin(const ModuleRun& run, const CallSpan& span) {
    return span.first <= run.first && run.last <= span.last;
  }

  void AddMade(NameId name, const AtenCall& call, const CallSpan& span, SpanValues& values) const {
    if (call.made_once || attributes_.contains(name)) {
      values.attributes.push_back(name);
    } else if (deaths_[Index(name)] > span.last) {
      values.returned.push_back(name);
    }
  }

  const Program& program_;
  ModuleRuns runs_;
  std::vector<ModuleCall> forwards_;  // of the runs
  std::vector<int64_t> deaths_;
  std::unordered_set<NameId> attributes_;
  std::unordered_set<NameId> own_;
};

}  // namespace

std::vector<SpanValues> ValuesAcross(const Program& program, std::span<const CallSpan> spans) {
  const ValueReader reader(program);
  std::vector<SpanValues> values;
  for (const CallSpan& span : spans) values.push_back(reader.Read(span));
  return values;
}

}  // namespace onnxfit

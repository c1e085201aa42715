#include "estimator/recover/merged_runs.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/repeated_modules.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {
namespace {

constexpr int64_t kNotMade = -1;

// "cross.q" of "cross@1.q".
std::string WithoutRuns(std::string_view path) {
  std::string text;
  bool is_run = false;
  for (const char c : path) {
    is_run = c == '@' || (is_run && c != '.');
    if (!is_run) text += c;
  }
  return text;
}

class MergedRunFinder {
 public:
  explicit MergedRunFinder(Program& program)
      : program_(program), runs_(program), maker_(program.values.size(), kNotMade) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId value : program.calls[i].outputs) {
        if (value != kNoName) maker_[Index(value)] = static_cast<int64_t>(i);
      }
    }
  }

  void Repeat() {
    std::map<std::pair<int32_t, std::string>, const ModuleRun*> first;  // by caller and path
    for (const ModuleRun& run : runs_.all()) {
      const std::string path = WithoutRuns(program_.modules.PathOf(run.module));
      const auto [known, is_first] = first.try_emplace({run.caller, path}, &run);
      if (!is_first) RepeatIn(*known->second, run);
    }
    if (!made_.empty()) Insert();
  }

 private:
  const AtenCall& At(int64_t call) const { return program_.calls[Index(call)]; }

  bool IsInput(NameId value) const {
    return std::ranges::find(program_.inputs, value) != program_.inputs.end();
  }

  void RepeatIn(const ModuleRun& first, const ModuleRun& second) {
    const std::set<int64_t> merged = MergedIn(first, second);
    if (merged.empty() || !AreSameBut(merged, first, second)) return;
    std::map<NameId, NameId> again;
    int64_t next = second.first;
    for (int64_t i = first.first; i <= first.last; ++i) {
      if (!merged.contains(i)) {
        ReadAgain(program_.calls[Index(next++)], again);
      } else {
        made_[next].push_back(MakeAgain(At(i), again));
        ModuleId& module = made_[next].back().module;
        module = InRun(module, first.module, second.module);
      }
    }
  }

  // The calls of run `first` that lead to what run `second` reads of it.
  std::set<int64_t> MergedIn(const ModuleRun& first, const ModuleRun& second) const {
    std::set<int64_t> merged;
    bool reads_made = false;  // what others have made, that is: not constants alone
    std::vector<int64_t> open;
    for (int64_t i = second.first; i <= second.last; ++i) open.push_back(i);
    while (!open.empty()) {
      const int64_t call = open.back();
      open.pop_back();
      for (const NameId value : At(call).inputs) {
        const int64_t maker = value == kNoName ? kNotMade : maker_[Index(value)];
        const bool is_inside = maker >= first.first && maker <= first.last;
        if (is_inside && merged.insert(maker).second) open.push_back(maker);
        const bool is_of_first = call >= first.first && call <= first.last;
        reads_made |= is_of_first && (maker == kNotMade ? IsInput(value) : maker < first.first);
      }
    }
    return reads_made && !merged.contains(first.last) ? merged : std::set<int64_t>();
  }

  // Whether run `second` makes what run `first` does, but for the calls `merged`.
  bool AreSameBut(const std::set<int64_t>& merged, const ModuleRun& first,
                  const ModuleRun& second) const {
    int64_t next = second.first;
    for (int64_t i = first.first; i <= first.last; ++i) {
      if (merged.contains(i)) continue;
      if (next > second.last || At(next).op != At(i).op || PathAt(next) != PathAt(i)) return false;
      ++next;
    }
    return next == second.last + 1;
  }

  std::string PathAt(int64_t call) const {
    return WithoutRuns(program_.modules.PathOf(At(call).module));
  }

  static void ReadAgain(AtenCall& call, const std::map<NameId, NameId>& again) {
    for (NameId& value : call.inputs) {
      if (const auto made = again.find(value); made != again.end()) value = made->second;
    }
  }

  AtenCall MakeAgain(AtenCall call, std::map<NameId, NameId>& again) {
    ReadAgain(call, again);
    for (NameId& value : call.outputs) {
      if (value == kNoName) continue;
      const ProgramValue like = program_.values[Index(value)];
      const NameId made = AddValue(program_, like.name, like.type);
      maker_.push_back(kNotMade);
      again[value] = made;
      value = made;
    }
    return call;
  }

  // The module in `second` that is what `module` is in `first`.
  ModuleId InRun(ModuleId module, ModuleId first, ModuleId second) {
    if (module == first || module == kOutside) return second;
    ModuleTree& modules = program_.modules;
    const std::string name = modules.NameOf(module);
    return modules.Enter(InRun(modules.CallerOf(module), first, second), name);
  }

  void Insert() {
    std::vector<AtenCall> calls;
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      const auto made = made_.find(static_cast<int64_t>(i));
      if (made != made_.end()) std::ranges::move(made->second, std::back_inserter(calls));
      calls.push_back(std::move(program_.calls[i]));
    }
    program_.calls = std::move(calls);
  }

  Program& program_;
  const ModuleRuns runs_;
  std::vector<int64_t> maker_;                     // by value
  std::map<int64_t, std::vector<AtenCall>> made_;  // in front of which call
};

}  // namespace

void RepeatMergedRuns(Program& program) {
  MarkNumberedModules(program);
  MergedRunFinder(program).Repeat();
}

}  // namespace onnxfit

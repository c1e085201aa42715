#include "estimator/program/module_runs.h"

#include "estimator/base/index.h"

namespace onnxfit {

ModuleRuns::ModuleRuns(const Program& program) {
  const ModuleTree& modules = program.modules;
  std::vector<int32_t> open;  // by level: indices of the runs that go on
  ModuleId before = kOutside;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    const ModuleId module = program.calls[i].module;
    if (module != before) open.resize(modules.Shared(before, module));
    for (size_t level = open.size(); level < modules.DepthOf(module); ++level) {
      const int32_t caller = open.empty() ? -1 : open.back();
      open.push_back(static_cast<int32_t>(runs_.size()));
      runs_.push_back({modules.AtLevel(module, level), static_cast<int64_t>(i), 0, level, caller});
    }
    for (const int32_t run : open) runs_[Index(run)].last = static_cast<int64_t>(i);
    innermost_.push_back(open.empty() ? -1 : open.back());
    before = module;
  }
}

int64_t ModuleRuns::EndOf(int64_t call, size_t level) const {
  int32_t run = innermost_[Index(call)];
  while (runs_[Index(run)].level > level) run = runs_[Index(run)].caller;
  return runs_[Index(run)].last;
}

int32_t ModuleRuns::RunOf(int64_t call) const { return innermost_[Index(call)]; }

size_t ModuleRuns::DepthAt(int64_t call) const {
  const int32_t run = RunOf(call);
  return run < 0 ? 0 : runs_[Index(run)].level + 1;
}

}  // namespace onnxfit

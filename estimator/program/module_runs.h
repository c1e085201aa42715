// The runs of modules' forwards that the calls of a program tell.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// One run: calls `first` to `last`, all of them in `module`.
struct ModuleRun {
  ModuleId module = kOutside;
  int64_t first = 0;
  int64_t last = 0;
  size_t level = 0;     // of the module, in the scopes of the calls
  int32_t caller = -1;  // index of the run around it, -1: none
};

class ModuleRuns {
 public:
  // Calls in a row that share a module are of one run of it.  O(calls × depth of modules).
  explicit ModuleRuns(const Program& program);

  // In the order in which they begin, the outer one before what it calls.
  const std::vector<ModuleRun>& all() const { return runs_; }
  // The last call of the run that call `call` is in, of the module at `level` around it.  O(depth).
  int64_t EndOf(int64_t call, size_t level) const;
  // The innermost run around call `call`, as an index; -1 outside of all.
  int32_t RunOf(int64_t call) const;
  // How many modules are around `call`.
  size_t DepthAt(int64_t call) const;

 private:
  std::vector<ModuleRun> runs_;
  std::vector<int32_t> innermost_;  // by call: index into runs_, -1 outside of all
};

}  // namespace onnxfit

// What a module's forward does in order, of files that show no lines.  Internal to the room
// locals/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// One run of a module's forward; `level` modules are around its own calls.
struct ForwardRun {
  int64_t first = 0;
  int64_t last = 0;
  size_t level = 0;
};

// A call of the forward's own, or a run of one of its children.
struct ForwardStep {
  std::string_view key;  // the operator, or the child
  int64_t first = 0;
  int64_t last = 0;
  bool is_child = false;
};

// In order.  O(calls × depth of modules).
std::vector<ForwardStep> StepsOf(const Program& program, const ModuleRuns& runs,
                                 const ForwardRun& forward);

// Which step behind step `turn`, a child's, is the same of a loop's next turn, as TorchScript calls
// what the children of a list do whose own forwards do not run: "norm@1", or "norm_1", for the
// second; the number of steps where none is.  O(steps).
size_t NextTurnOf(const std::vector<ForwardStep>& steps, size_t turn);

// Whether the step is an attention, or the softmax of one.
bool Attends(const ForwardStep& step);

// Whether the outermost forward calls methods for the blocks that it runs: a method begins with the
// sizes of what it is given, "B, T, C = x.shape", where a loop of the forward's own knows them.
// Taken to be so of files that ask for no sizes, which are fixed.  O(calls).
bool CallsMethods(const Program& program, const ModuleRuns& runs, const ForwardRun& forward);

// The last call of the method that attends, whose product `context` is: of a forward that goes on
// with a residual sum and other layers, and of the outermost one that calls a method, that of the
// child that reads it next, "return self.proj(out)"; else the forward's.  O(calls of the forward).
int64_t EndOfAttention(const Program& program, const ModuleRuns& runs, const ForwardRun& forward,
                       int64_t context);

// The end of the next layer of the list that the forward is one of; -1 where there is none.  `last`
// is the model's last call.  O(calls).
int64_t EndOfNextLayer(const ModuleTree& modules, const std::vector<AtenCall>& calls,
                       const ModuleRuns& runs, const ForwardRun& forward, int64_t last);

// Calls of the forward that run layers of one list, in turns.
struct LoopOfLayers {
  std::string_view list;
  std::vector<const ForwardStep*> turns;
};
// `steps` must outlive them.  O(steps × log).
std::vector<LoopOfLayers> LoopsOf(const std::vector<ForwardStep>& steps);

}  // namespace onnxfit

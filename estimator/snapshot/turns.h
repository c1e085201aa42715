// The training loop of a recorded run, found by its lines, and what each turn of it leaves behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/recorded_run.h"

namespace onnxfit {

// The loop whose turns are the steps: where a stack of Python comes back to an earlier line of the
// same function, of the user's and outside of all modules, outermost functions first, three turns
// at least, and frees a quarter of what it asks for.
struct Turns {
  FrameId loop = -1;                 // where a turn first asks for memory; -1: no loop was found
  std::vector<int64_t> begins = {};  // the events that do, in order

  // From 1; 0 before the first turn, and where there is none.
  int64_t TurnAt(int64_t event) const;
  int64_t count() const { return static_cast<int64_t>(begins.size()); }
};

// `run` is of `snapshot`.  O(events × depth of stacks).
Turns FindTurns(const MemorySnapshot& snapshot, const RecordedRun& run);

// What a loop leaves behind, by index into the run's blocks: allocations of one size by the same
// lines, of which two turns or more before the last each keep some until the end, an early one
// among them.  (A loop that trains keeps what its last turn made, and what its first one made for
// good; a queue what the last few turns made.)  O(blocks × log).
std::vector<size_t> FindGrowth(const RecordedRun& run, const Turns& turns);

}  // namespace onnxfit

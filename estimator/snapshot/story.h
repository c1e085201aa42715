// What a memory snapshot tells of its run: what lived when it counted, by whose lines, and what
// grew from step to step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/recorded_run.h"
#include "estimator/snapshot/turns.h"

namespace onnxfit {

struct SizeCount {
  int64_t bytes = 0;  // of one
  int64_t count = 0;

  bool operator==(const SizeCount&) const = default;
};

// Allocations that the same lines of the user's asked for.
struct LineGroup {
  StackId stack = 0;                  // of the largest; PyTorch's own frames differ
  bool is_early = false;              // asked for before the history, so that nobody knows by whom
  std::vector<SizeCount> sizes = {};  // the largest total first
  int64_t bytes = 0;                  // of all
  int64_t count = 0;
  int64_t growing_bytes = 0;  // of those that turns of the loop leave behind
  int64_t growing_turns = 0;  // how many turns do
};

struct RunStory {
  MemorySnapshot snapshot;
  RecordedRun run;
  Turns turns;
  std::vector<bool> grows = {};        // by block
  std::vector<LineGroup> live = {};    // at run.moment; the most bytes first
  std::vector<LineGroup> growth = {};  // of what grows alone
  int64_t growth_bytes = 0;            // of all of it, at the end
  FrameId growth_line = -1;            // of the loop's function, where most of it is asked for
  int64_t growth_line_bytes = 0;       // by that line and what it calls
};

// Throws Error as FollowSnapshot does.
RunStory TellStory(MemorySnapshot snapshot);

// `blocks` (indices into the run's), those of the same lines together, the most bytes first.
// O(blocks × log × depth of stacks).
std::vector<LineGroup> GroupByLines(const RunStory& story, std::span<const size_t> blocks);

// The user's frames of `stack`, innermost first, up to the function that has the loop: what calls
// that is the same for all.
std::vector<FrameId> FramesInLoop(const RunStory& story, StackId stack);

}  // namespace onnxfit

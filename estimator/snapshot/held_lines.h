// Whose lines hold the bytes of one moment of a recorded run: the user's own, for people who look
// for what to change.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/recorded_run.h"

namespace onnxfit {

// All that one line asked for, directly or through what it calls.
struct HeldLine {
  FrameId frame = -1;     // -1: no line of Python did, as in autograd's own threads
  bool is_early = false;  // asked for before the history, so that nobody knows by whom
  int64_t bytes = 0;
  int64_t count = 0;
  // Of these, what lines of packages asked for that this line calls, the most bytes first.
  std::vector<HeldLine> within = {};
};

// The innermost frame of `stack` that is in the user's own files: no package, nothing of Python or
// PyTorch, nothing below the folder `hidden`.  Where there is none, the innermost of a package; -1
// where PyTorch alone was there.
FrameId OwnFrame(const MemorySnapshot& snapshot, StackId stack, std::string_view hidden);

// The innermost frame that is neither PyTorch's nor Python's nor below `hidden`: a package's or the
// user's; -1 for none.
FrameId InnerFrame(const MemorySnapshot& snapshot, StackId stack, std::string_view hidden);

// What lives at `event`, by such lines, the most bytes first.  O(blocks × (log + depth of stacks)).
std::vector<HeldLine> HeldByLines(const MemorySnapshot& snapshot, const RecordedRun& run,
                                  int64_t event, std::string_view hidden);

}  // namespace onnxfit

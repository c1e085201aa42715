// A recorded run over its time, as it is drawn: bytes of tensors, by the lines that hold most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/snapshot/held_lines.h"
#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/recorded_run.h"

namespace onnxfit {

// What one line asked for and holds, by point.
struct LineLayer {
  enum class What : uint8_t {
    kLine,
    kBackward,  // no line of Python asked
    kEarly,     // asked for before the record
    kOthers,    // all other lines
  };
  What what = What::kLine;
  FrameId frame = -1;    // of kLine
  bool is_rest = false;  // without what lines of packages have below it, in layers of their own
  std::vector<int64_t> bytes = {};
};

// Each point is a slice of the events, and shows the moment of it with the most bytes, so that no
// peak is lost.
struct RecordedCurve {
  int64_t events = 0;
  bool is_cut = false;                        // they are the newest: what came before was not kept
  std::vector<int64_t> requested_bytes = {};  // of all that lives
  std::vector<int64_t> staying_bytes = {};    // of it, what lives for a third of the events or more
  std::vector<int64_t> reserved_bytes = {};
  std::vector<FrameId> asked_by = {};  // whose line asked last, -1 for nobody's
  std::vector<LineLayer> layers = {};  // together they are all that lives; kOthers is the last
  size_t peak = 0;                     // the point of the run's peak
  std::optional<size_t> full = {};     // where the card was full last
  std::vector<size_t> turns = {};      // where each turn of the main loop begins
};

struct CurveOptions {
  size_t points = 1;        // at most
  size_t layers = 0;        // lines that have one of their own, at most
  std::string_view hidden;  // frames of files below this folder are no lines of the program's
};

// `held` is what HeldByLines says of the moment whose largest lines are to have layers: of a line
// that holds a quarter of it, the largest lines of packages below it have layers, too.  No points
// where the snapshot has no events.  O(events × depth of stacks).
RecordedCurve CurveOf(const MemorySnapshot& snapshot, const RecordedRun& run,
                      const std::vector<HeldLine>& held, const CurveOptions& options);

}  // namespace onnxfit

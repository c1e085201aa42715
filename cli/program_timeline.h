// What a process of a run had allocated over its time, as a drawing for a terminal.
#pragma once

#include <string>

#include "estimator/picture/terminal.h"
#include "estimator/snapshot/story.h"

namespace onnxfit {

// All that a snapshot recorded, in the points of a terminal: of each slice of its events the most,
// so that no peak is lost; turns of the loop are marked.  Frames below `hidden` are no lines of the
// program's.  O(events × log).
TimelinePlot PlotOf(const MemorySnapshot& snapshot, const RecordedRun& run, const Turns& turns,
                    const std::string& hidden);

// The same of the snapshot at `path`, drawn; "" where it cannot be read.
std::string DrawSnapshot(const std::string& path, const std::string& hidden,
                         const TextOptions& options);

}  // namespace onnxfit

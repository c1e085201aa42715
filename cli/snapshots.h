// Memory snapshots that PyTorch wrote, as commands read them.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "cli/options.h"
#include "estimator/onnx/graph.h"
#include "estimator/snapshot/memory_snapshot.h"

namespace onnxfit {

// A snapshot that is read, and the model that its run trained.
struct SnapshotSide {
  std::string name;  // as messages have it
  MemorySnapshot snapshot;
};

// What a snapshot tells, and, where `model` is not null, what its run kept that the prediction of
// it does not: diff's answer, or explain-oom's.  Writes it and returns the exit code: 1 where
// diff's run kept more than --fail-above.  Throws Error.
int AnswerSnapshot(SnapshotSide side, const Graph* model, const Options& options,
                   std::ostream& out);

}  // namespace onnxfit

// Memory snapshots that PyTorch wrote, as commands read them.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "cli/options.h"
#include "estimator/snapshot/memory_snapshot.h"

namespace onnxfit {

// A snapshot that is read.
struct SnapshotSide {
  std::string name;  // as messages have it
  MemorySnapshot snapshot;
};

// `onnxfit explain-oom` of a snapshot: what it tells, and, where `options` name a model, what its
// run kept that the prediction of that does not.  Writes it and returns the exit code.  `reading`
// is what is being read, for errors.  Throws Error.
int ExplainSnapshot(SnapshotSide side, const Options& options, std::ostream& out,
                    std::string& reading);

// `onnxfit diff SNAPSHOT MODEL`: what the run kept that the prediction does not.  The same; 1 where
// that is more than --fail-above.  Nothing where neither side is a file that is a snapshot.
std::optional<int> DiffSnapshot(const Options& options, std::ostream& out, std::string& reading);

}  // namespace onnxfit

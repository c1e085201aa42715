// Whose lines hold the memory of a process of a run: from PyTorch's snapshot of it, and the files
// that its lines stand in.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/report/program_run.h"

namespace onnxfit {

// A process's snapshots in a run's folder.  Frames of files below `hidden` are no lines of the
// program's.
struct SnapshotOfProcess {
  std::string path = {};
  std::string peak_path = {};  // of its peak, where there is one
  std::string hidden = {};
};

// Fills what of `process` its snapshot tells: what is held, where the card was full, and a curve of
// so many `points`, if any.  Nothing where the file cannot be read.
void AddSnapshot(const SnapshotOfProcess& from, size_t points, ProgramProcess& process);

// What the message of a process that ran out of memory means, in two or three sentences.
void ExplainEnd(ProgramProcess& process);

}  // namespace onnxfit

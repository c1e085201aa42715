// Whose lines hold the memory of a process of a run: from PyTorch's snapshot of it, and the files
// that its lines stand in.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/report/program_run.h"

namespace onnxfit {

// Fills what of `process` its snapshot tells: what is held, where the card was full, and a curve of
// so many `points`, if any.  Frames of files below `hidden` are no lines of the program's.  Nothing
// where the file cannot be read.
void AddSnapshot(const std::string& path, const std::string& hidden, size_t points,
                 ProgramProcess& process);

// What the message of a process that ran out of memory means, in two or three sentences.
void ExplainEnd(ProgramProcess& process);

}  // namespace onnxfit

// Who asked the card for memory in a program without PyTorch, as the library wrote it down.
#pragma once

#include <string>

#include "estimator/report/program_run.h"

namespace onnxfit {

// Fills what lived at the peak of the process that had most, all its cards together, by who asked
// for it (absent/askers.h), the most bytes first.  Nothing where no process knows.  O(events ×
// log).
void AddRequests(const std::string& folder, ProgramRun& run);

}  // namespace onnxfit

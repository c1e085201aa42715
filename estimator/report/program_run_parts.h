// What reports of a program's run share.  Internal to the room report/.
#pragma once

#include <string>

#include "estimator/report/formats.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/program_run.h"

namespace onnxfit {

// All of a run below its verdicts.
std::string RunDetails(const ProgramRun& run, const TextOptions& options);

// {"exit_code", "failed", "targets", "processes", …}
Json RunJson(const ProgramRun& run);

}  // namespace onnxfit

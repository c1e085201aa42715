// Names that are known of forwards by the children of their modules (KnownNameRow in libraries.h).
// Internal to the room locals/.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Adds to `names` what rows tell of the forward, whose steps these are.  `last_reads` are calls, by
// value; `last` is the model's last call.  O(rows × steps + calls × depth of modules).
void FindRowNames(const Program& program, const ModuleRuns& runs,
                  const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, int64_t last,
                  std::vector<KnownName>& names);

}  // namespace onnxfit

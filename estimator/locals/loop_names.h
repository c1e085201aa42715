// What forwards that run layers of lists in loops bind, of files that show no lines.  Internal to
// the room locals/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Adds to `names`: what lists gather of layers, what layers return beside another value, and parts
// of a value, which one line names.  `steps` are those of `forward`; `last_reads` are calls, by
// value; what `names` tell from `known` on is told by rows.  O(steps² + calls × log).
void FindLoopNames(const Program& program, const ModuleRuns& runs,
                   const std::vector<int64_t>& last_reads, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names);

}  // namespace onnxfit

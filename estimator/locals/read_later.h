// What forwards read after another of their modules has run, of files that show no lines.  Internal
// to the room locals/.
#pragma once

#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Whether layers that read the same, by their names, are of more than one turn of a loop.
bool AreTurns(const std::set<std::string_view>& layers);

// Adds to `names`: x1 = self.stem(x).  What `names` tell from `known` on is told by rows.
// O(steps² + calls × log).
void FindReadLater(const Program& program, const ModuleRuns& runs, const ForwardRun& forward,
                   const std::vector<ForwardStep>& steps, size_t known,
                   std::vector<KnownName>& names);

}  // namespace onnxfit

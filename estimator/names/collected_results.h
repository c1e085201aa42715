// What forwards put into lists that they return, though nothing reads all of it: feature maps of
// stages, hidden states of layers.  Internal to the room names/.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// A value that a name of statement `statement` of `module` holds, by their indices.
struct CollectedResult {
  NameId value = kNoName;
  size_t module = 0;
  size_t statement = 0;
};

// By lines of libraries that are known to do so (CollectedLines in libraries.h): in `made`, of the
// forwards that collect; in `returned`, of the names that callers bind the list to, outwards as
// long as that statement is the last one of a forward, or binds the name that its caller binds,
// too.
struct CollectedResults {
  std::vector<KnownName> made;
  std::vector<CollectedResult> returned;
};
// `modules` are those of `runs`, in that order.  O(statements × rows + depth of modules).
CollectedResults FindCollected(const Program& program, const ModuleRuns& runs,
                               const std::vector<ModuleCall>& modules);

}  // namespace onnxfit

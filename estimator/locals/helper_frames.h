// Names that functions of libraries bind, whose lines a file does not show but whose text is known
// (HelperFrames in libraries.h).
#pragma once

#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// What the names of a function hold, and until when, and what it returns: by target of the
// statement that calls it, several values of an object.
struct HelperNames {
  std::vector<KnownName> locals;
  std::vector<std::vector<NameId>> returned;
};

// Those of the function that `statement` calls, by the first text of which the statement makes all
// calls, in that order, and others in between.  Nothing where no text is known.
// O(calls of the statement + lines).
HelperNames FindHelperNames(const Program& program, const ModuleRuns& runs,
                            const Statement& statement);

}  // namespace onnxfit

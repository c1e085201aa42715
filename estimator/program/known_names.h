// Names of Python's that files without source lines do not show, and that are known all the
// same.  Internal to the room program/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// A local of some module's forward holds `value` until call `until` has returned.
struct KnownName {
  NameId value = kNoName;
  int64_t until = 0;
  std::string name;
};

// Known of nearly all code:
//   what an embedding returns is a local of the caller (but for `embed(x) * scale`, and in the
//   outermost forward, which is somebody's own and may write one line), and so are the
//   positions that it is given, q, k and v of attention and what the layers of a loop share;
// known of a library by the children of its modules: the rows of a table.
// Nothing where the file shows source lines.  `last` is the model's last call.
// O(calls × depth of modules × rows).
std::vector<KnownName> FindKnownNames(const Program& program, const ModuleRuns& runs, int64_t last);

}  // namespace onnxfit

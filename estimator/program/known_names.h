// Names of Python's that files without source lines do not show, and that are known all the
// same.  Internal to the room program/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// A local of some module's forward holds `value` until call `until` has returned.
struct KnownName {
  NameId value = kNoName;
  int64_t until = 0;
  std::string name;
};

// Known of nearly all code:
//   what an embedding returns, and the positions that it is given, are locals of the caller
//   (but for `embed(x) * scale`), as are q, k and v of attention and what the layers of a
//   loop share;
// known of a library by the children of its modules: the rows of a table.
// Nothing of calls whose source lines the file shows.  `ends` are ModuleEnds(calls).
// O(calls × depth of modules × rows).
std::vector<KnownName> FindKnownNames(const std::vector<AtenCall>& calls,
                                      const std::vector<std::vector<int64_t>>& ends);

}  // namespace onnxfit

// What forwards return beside their value: in a line that shows it, "return self.gamma * x,
// attention" and "return cos.to(x.dtype), sin.to(x.dtype)", or known of their class (ReturnedItems
// in libraries.h).  Internal to the room names/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// A value that target `place` of a statement holds, by its index in its module call, and that
// one's.
struct ReturnedValue {
  NameId value = kNoName;
  size_t module = 0;
  size_t statement = 0;
  size_t place = 0;
};

// Of the forwards whose callers bind all of it to one name, or, of what lines show, each to one.
// `modules` are those of `runs`, in that order.  O(statements).
std::vector<ReturnedValue> FindReturnedTuples(const Program& program, const ModuleRuns& runs,
                                              const std::vector<ModuleCall>& modules);

}  // namespace onnxfit

// What a forward passes to the modules that it calls, whether they read it or not.  Internal to the
// room program/.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

struct Passed {
  std::vector<NameId> names;  // in the order of Python's names
  bool by_position = false;   // all of them: the line is known to its end and has no keyword
};

// What the names of the forward `caller` hold that its line passes to the module that runs from
// call `first` on: the names in that line, and, where it goes on in lines that the file does not
// show, those that libraries are known to pass there.  O(statements).
Passed PassedNames(const Program& program, const ModuleCall& caller, int64_t first);

// What `outer`, a forward further out, binds that libraries are known to pass to layers, where its
// line goes on in lines that the file does not show.  O(statements).
std::vector<NameId> PassedDown(const Program& program, const ModuleCall& outer, int64_t first);

}  // namespace onnxfit

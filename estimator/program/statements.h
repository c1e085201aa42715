// Python's statements, as far as torch.export writes them down: which calls each one made,
// and which names it bound.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct Statement {
  int64_t first = 0;  // calls it made, and the modules that it called
  int64_t last = 0;
  StatementId source = kNoStatement;      // "x = self.conv(x)"
  std::vector<std::string> targets = {};  // "x", that of its source or a likely one
  bool is_hidden = false;                 // the file holds inner lines alone, not this one
  bool is_chain = false;                  // ".view(n)" is in a line below
  bool in_helper = false;  // its calls are those of a method, whose lines are unknown
  size_t level = 0;        // modules around the calls of its own
};

// One run of a module's forward.
struct ModuleCall {
  int64_t first = 0;
  int64_t last = 0;
  std::vector<Statement> statements;  // in order; what made no call is not seen
};

// A statement whose line the file does not show is taken to bind the name under which its
// result is passed to a module later.
// All calls of a line that calls a method of the model's own are one statement too.
// Every module call, the outer one before what it calls.  Calls of one line are one statement;
// two calls of one line to the same module, or to numbered children of one container, are two
// turns of a loop.  O(calls × depth of modules), and O(statements behind) for each whose line is
// unknown in a forward that shows others.
std::vector<ModuleCall> FindModuleCalls(const Program& program, const ModuleRuns& runs);

// That around call `call` of the module call; null without one.  O(statements).
const Statement* StatementAt(const ModuleCall& module, int64_t call);

// Whether one of its calls is that of a module.  O(its calls).
bool CallsModule(const Program& program, const Statement& statement);

// One turn of a loop, calls `first` to `last`.
struct Turn {
  int64_t first = 0;
  int64_t last = 0;
};

// Whether both make calls of the same operators, one after the other.
bool MakeSameCalls(const std::vector<AtenCall>& calls, const Turn& a, const Turn& b);

}  // namespace onnxfit

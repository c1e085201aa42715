// Names that forwards, and the methods and functions that they call, bind in lines that the file
// does not show, and that are known all the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// A local of some module's forward holds `value` until call `until` has returned.
struct KnownName {
  NameId value = kNoName;
  int64_t until = 0;
  std::string name;  // "self.attn": of the module that makes it, and held beyond its forward
};

// Whether one of `names` holds `value`, those before place `known` aside, which are of forwards
// that were looked at before.  O(names).
bool HoldsSince(const std::vector<KnownName>& names, size_t known, NameId value);

// Known of nearly all code:
//   what an embedding returns is a local of the caller (but for `embed(x) * scale`, and in the
//   outermost forward, which is somebody's own and may write one line), and so are the
//   positions that it is given, q, k and v of attention, what the layers of a loop share,
//   what is read after another child of the forward has run and what Python's order of evaluation
//   shows;
// known of a library by the children of its modules: the rows of a table.
// Nothing where the file shows source lines.  `last` is the model's last call.
// O(calls × depth of modules × rows).
std::vector<KnownName> FindKnownNames(const Program& program, const ModuleRuns& runs, int64_t last);

// Until which call of `statement` the names of a method or function that it calls hold `name`,
// which call `maker` has made: what several calls of a method read, what Python's order of
// evaluation shows to have a name, and what is known of libraries.
// What the modules that the method calls make inside is theirs, and their lines tell of it.
// `maker` where nothing is known to hold it.  O(calls of the statement).
int64_t HeldInHelper(const Program& program, const ModuleRuns& runs, const Statement& statement,
                     int64_t maker, NameId name);

// Whether `call` makes what takes the place of its first operand in an attribute, which alone held
// that: self.keys = torch.cat([self.keys, key_states], dim=-2) of a cache of past keys.
bool ReplacesOperand(const Program& program, const AtenCall& call);

}  // namespace onnxfit

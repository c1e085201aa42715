// Names that methods and functions bind whose lines the file does not show.  Internal to the
// room program/.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/program/program.h"
#include "estimator/program/statements.h"

namespace onnxfit {

// Until which call of `statement` the names of a method or function that it calls hold `name`,
// which call `maker` has made: what several calls of a method read, and what is known of libraries.
// What the modules that the method calls make inside is theirs, and their lines tell of it.
// `maker` where nothing is known to hold it.  O(calls of the statement).
int64_t HeldInHelper(const Program& program, const ModuleRuns& runs, const Statement& statement,
                     int64_t maker, NameId name);

// Whether `call` makes what takes the place of its first operand in an attribute, which alone held
// that: self.keys = torch.cat([self.keys, key_states], dim=-2) of a cache of past keys.
bool ReplacesOperand(const Program& program, const AtenCall& call);

}  // namespace onnxfit

// A program at one batch, read off those of a smaller and a larger one: what is recovered does
// not depend on the batch, sizes grow with it.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/program/program.h"

namespace onnxfit {

struct ProgramAt {
  const Program* program = nullptr;
  int64_t batch = 1;
};

// nullopt where the two differ in more than sizes and integer arguments, or where one of these
// does not grow by the same whole number a sample.  That it does so in between is not checked.
// REQUIRES: first.batch < batch < last.batch; no call of either is dispatched yet.  O(calls).
std::optional<Program> BetweenBatches(const ProgramAt& first, const ProgramAt& last, int64_t batch);

// Whether both are the same in calls, sizes and integer arguments.
bool SameProgram(const Program& a, const Program& b);

}  // namespace onnxfit

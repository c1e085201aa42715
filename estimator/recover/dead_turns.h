// What the last turn of a loop over layers runs and no output needs.  Internal to the room
// recover/.
#pragma once

#include <vector>

#include "estimator/program/program.h"

namespace onnxfit {

// "for layer in layers: residual, skip = layer(x); x = x + residual; skips = skips + skip": the
// last sum is read by nobody, so that an export has neither it nor the layer's child that makes its
// `residual`.  Puts back into `program`, whose forward alone is written, what the turn before runs
// and this one does not:
//   where tensors of this turn that no call reads show that it does, what reads them, what that is
//   made of, and what is made of it;
//   else what the next turn would read, of what nothing else reads in this one, "x + h" of "return
//   x + h, self.skip(h)".
// Returns what it makes.  Where an operand has no counterpart, or one of other sizes, nothing of
// that turn is put back.  O((calls + those of last turns) × log).
std::vector<NameId> PutBackDeadTurns(Program& program);

}  // namespace onnxfit

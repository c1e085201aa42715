// Buffers that a module replaces by a cast of them, in its first call.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// "self.pe = self.pe.to(x.dtype)" before the lines of libraries that read such a buffer
// (ReadsKeptCast in libraries.h): the module keeps the cast, and lets the buffer go.  `x` is what
// the calls before have made last, of a batch of states [batch, places, width].  O(calls).
void KeepCastsOfBuffers(Program& program);

}  // namespace onnxfit

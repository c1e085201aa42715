// What loops of a forward's own calls bind, of files that show no lines.  Internal to the room
// locals/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Adds to `names`: "for w in self.weights: x = x0 * (x @ w) + x", of three turns or more, which
// the exporter has written one behind another: what each turn reads, and what the last one hands
// on.  Not of loops that run again, which may be a function's, whose names are gone.  What `names`
// tell from `known` on is told by rows.  O(steps² × turns + calls).
void FindOwnLoops(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names);

}  // namespace onnxfit

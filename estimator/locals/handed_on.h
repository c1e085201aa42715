// What loops over layers hand on from turn to turn, of files that show no lines.  Internal to the
// room locals/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"

namespace onnxfit {

// Adds to `names`, of a pyramid's "for c, lateral, smooth in …: side = lateral(c); top =
// F.interpolate(top) + side; P.append(smooth(top))": top until it is bound anew, that of the last
// turn to the forward's end; and side, which would be evaluated behind the resizing if it had no
// name, until the next turn's.  What `names` tell from `known` on is told by rows.
// O(steps² + calls).
void FindHandedOn(const std::vector<AtenCall>& calls, const ForwardRun& forward,
                  const std::vector<ForwardStep>& steps, size_t known,
                  std::vector<KnownName>& names);

}  // namespace onnxfit

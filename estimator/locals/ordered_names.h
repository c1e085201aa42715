// What Python's order of evaluation shows to have a name, of files that show no lines.  Internal to
// the room locals/.
#pragma once

#include <cstddef>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/locals/forward_steps.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Adds to `names`, of a forward's own calls: "later = torch.triu(…); mask = (ids != 1) & (later ==
// 0)", whose first line would be evaluated behind "ids != 1" in the second.  Only of what it does
// once: what it does again may be a function's, whose names are gone when it returns.  What `names`
// tell from `known` on is told by rows.  O(steps² + calls × log).
void FindOrderedNames(const Program& program, const ForwardRun& forward,
                      const std::vector<ForwardStep>& steps, size_t known,
                      std::vector<KnownName>& names);

}  // namespace onnxfit

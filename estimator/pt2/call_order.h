// Whether the calls of a .pt2 can run in the order in which they stand.
#pragma once

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// Throws Error where a call, in the graph or in one that a call takes, reads what neither an input
// nor a call before it makes, or the graph returns such a value.  O(arguments × log values).
void CheckOrder(const ExportedProgram& exported);

}  // namespace onnxfit::pt2

// Calls whose arguments are graphs (torch/_higher_order_ops/): contexts, branches and loops.
// Internal to the room pt2/.
#pragma once

#include <vector>

#include "estimator/pt2/exported_program.h"

namespace onnxfit::pt2 {

// The graphs among the arguments.
std::vector<const Argument*> BodiesOf(const Call& call);
bool HasBodies(const Call& call);

// The lists among them, in order: operands of loops and branches.
std::vector<const std::vector<Argument>*> ListsOf(const Call& call);

// The results, those in a list too.
std::vector<Argument> ResultsOf(const Call& call);

}  // namespace onnxfit::pt2

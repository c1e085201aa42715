// Casts that are known of a module by its children.  Internal to recovery.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/lost_calls.h"

namespace onnxfit {

// Casts that the forward of a module with some children is known to make (ModuleCasts in
// libraries/module_casts.h), where no line tells; in the order of calls.  O(nodes × rows).
std::vector<LostCall> FindModuleCasts(const BoundGraph& bound);
// Paths of the modules that run them, outside of autocast.  O(nodes × rows).
std::set<std::string> FindModulesThatCast(const BoundGraph& bound);

}  // namespace onnxfit

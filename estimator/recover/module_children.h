// Modules as files without lines and classes show them.  Internal to the room recover/.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/lost_calls.h"

namespace onnxfit {

// The paths of the modules that nodes are of; the outermost one's is "".  O(nodes × log).
std::set<std::string> PathsOfModules(const ExporterMetadata& metadata);

// The names of each module's children, by its path; the outermost one's is "".  O(nodes × log).
std::map<std::string_view, std::set<std::string_view>> ChildrenOfModules(const BoundGraph& bound);

// Casts that the forward of a module with some children is known to make (ModuleCasts in
// libraries/module_casts.h), where no line tells; in the order of calls.  O(nodes × rows).
std::vector<LostCall> FindModuleCasts(const BoundGraph& bound);
// Paths of the modules that run them, outside of autocast.  O(nodes × rows).
std::set<std::string> FindModulesThatCast(const BoundGraph& bound);

}  // namespace onnxfit

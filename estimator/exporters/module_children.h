// Modules as files without lines and classes show them.  Internal to recovery.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

// The paths of the modules that nodes are of; the outermost one's is "".  O(nodes × log).
std::set<std::string> PathsOfModules(const ExporterMetadata& metadata);

// The names of each module's children, by its path; the outermost one's is "".  O(nodes × log).
std::map<std::string_view, std::set<std::string_view>> ChildrenOfModules(const BoundGraph& bound);

}  // namespace onnxfit

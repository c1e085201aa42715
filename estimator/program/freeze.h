// Which parameters a loop does not train (--freeze).  Internal to the room program/.
#pragma once

#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/program/roles.h"

namespace onnxfit {

// By index into roles.parameters: whether one of `globs` matches its name.  "*" is any
// letters, dots included, "?" is one.  A leading "model.", which is what exporters call a
// wrapped network, may be left out: "layer1.*" is "model.layer1.*" too.
// Throws Error for a glob that matches nothing, with the nearest names.
// O(globs × letters of all names × letters of a glob).
std::vector<bool> FindFrozen(const Graph& graph, const Roles& roles,
                             const std::vector<std::string>& globs);

}  // namespace onnxfit

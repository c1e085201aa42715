// torch.autograd.Functions, whose forward exporters write call by call, as if each had a backward
// of its own.  Internal to recovery.
#pragma once

#include <string_view>
#include <vector>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

// The nodes of one call of a Function.
struct FunctionBody {
  std::string_view op;        // which has its backward (libraries.h)
  std::vector<NodeId> nodes;  // in the graph's order; the last one makes the result
};

// By the lines of their forwards; in files without lines, by the names of the modules that call
// them.  O(nodes × log).
std::vector<FunctionBody> FindFunctionBodies(const BoundGraph& bound);

}  // namespace onnxfit

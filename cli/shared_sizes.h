// Sizes that are named once for several models, of which each has some.
#pragma once

#include <set>
#include <span>
#include <string>

#include "estimator/graph/graph.h"
#include "estimator/graph/shapes.h"

namespace onnxfit {

struct NamedGraph {
  std::string name;  // as messages have it
  const Graph* graph = nullptr;
};

// The names of dimensions and inputs that `binding` gives sizes.
std::set<std::string> NamesIn(const DimBinding& binding);

// Of these, what one of `graphs` has.  O(their inputs).
std::set<std::string> NamesOfAny(const DimBinding& binding, std::span<const Graph* const> graphs);

// `binding` for both sides of a comparison: what one of them has, the other may lack.
// Throws Error where neither has a name, with the names that they have.
DimBinding BindingForBoth(DimBinding binding, const NamedGraph& before, const NamedGraph& after);

}  // namespace onnxfit

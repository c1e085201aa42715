// Bodies of torch.autocast(enabled=False) and torch.no_grad(), which torch.export takes apart from
// their module's forward: their lines are those of a graph that it has generated.  Internal to
// recovery.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

struct GeneratedBodies {
  // Paths of modules whose calls leave autocast: those that run products, or what else autocast
  // would cast, in such a body.  What models open a block of torch.autocast for is to disable it,
  // as rotary embeddings do, which their names show in files without lines.
  std::set<std::string> outside_autocast;
  // By node: bodies without any such call, for which disabling autocast would change nothing, and
  // those with convolutions or products with vectors, which are not trained; and what a
  // torch.autograd.Function runs; in files without lines, what rows of libraries say.
  std::vector<bool> without_grad;
};

// O(nodes).
GeneratedBodies FindGeneratedBodies(const BoundGraph& bound);

}  // namespace onnxfit

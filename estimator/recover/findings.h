// What a file shows at some sizes before any setting is asked: found once, for all ways to read it.
// Internal to the room recover/, but for `rewrites`.
#pragma once

#include <optional>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/generated_bodies.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/lost/places.h"
#include "estimator/parameters/roles.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {

struct Findings {
  // All must outlive it.  (The passes are in build_program.cc.)  O(nodes × log).
  Findings(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes);
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;

  const BoundGraph bound;

  // Calls that several nodes are (rewrites.h).
  std::vector<Rewritten> rewrites;

  // The module's tensors (roles.h).
  TensorFindings tensors;

  // What the export has lost, or may have (lost_calls.h).
  LostOperands operands;
  std::vector<LostCall> casts;
  LostDropouts dropouts;
  std::optional<bool> likely_drops_out;
  std::vector<LostStochasticDepth> stochastic_depths;

  // Where calls run (places.h).
  InPlaceNodes in_place;
  GeneratedBodies bodies;
};

}  // namespace onnxfit

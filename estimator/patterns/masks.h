// What masks are to PyTorch, and those that libraries build in an export alone.  Internal to
// recovery.
#pragma once

#include <vector>

#include "estimator/exporters/bound_graph.h"

namespace onnxfit {

// Exporters compute masks that PyTorch, told by a flag, never makes: tracing keeps libraries from
// leaving out the mask that hides nothing, and is_causal is written as a triangle.
struct AttentionMask {
  ValueId tensor = kNoValue;  // a bool mask, or what is added to the scores; kNoValue: none
  bool causal = false;        // what lies behind a position is hidden from it
};

// `value` is what a file adds to the scores.
//   Where (all true, 0, -inf)        nothing
//   Where (triangle, 0, -inf)        causal
//   Where (all true, bias, -3e38)    the bias
//   Where (triangle, bias, -3e38)    the bias, causal
//   Where (other, 0, -inf)           the bool mask `other`
//   anything else                    itself
// The same with the last two turned round, where true hides.  O(elements of the condition).
AttentionMask ReadMask(const BoundGraph& bound, ValueId value);

// Whether lines of the source say what made `node`, and none that a library leaves out of a run:
// its mask is made in each.
bool IsMaskOfModel(const ExporterMetadata& metadata, NodeId node);

// What the model's own lines make and pass to a library's function that builds a mask: it is made
// whether or not there is a mask then.  O(nodes).
std::vector<ValueId> FindArgumentsOfMasks(const BoundGraph& bound);

}  // namespace onnxfit

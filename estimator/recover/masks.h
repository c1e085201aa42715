// What an attention mask of a file is to PyTorch.  Internal to the room recover/.
//
// Exporters compute masks that PyTorch, told by a flag, never makes: tracing keeps libraries
// from leaving out the mask that hides nothing, and is_causal is written as a triangle.
#pragma once

#include "estimator/recover/bound_graph.h"

namespace onnxfit {

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

}  // namespace onnxfit

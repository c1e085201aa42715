// Attention written out in Python, for models that train with attn_implementation="eager".
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Replaces every scaled_dot_product_attention by the calls of transformers' eager attention:
//
//   weights = matmul(q, k.transpose(2, 3)) * scaling      # grouped heads repeated before
//   weights = weights + mask                              # fp32, made once a forward
//   weights = dropout(softmax(weights, dtype=float32).to(q.dtype))
//   output = matmul(weights, v)
//
// What files write out themselves is not touched, but for that same function of transformers, which
// is written out anew in this run's types (written_attention.h).  A mask of bools, and a causal one
// that a kernel needs no tensor for, become zeros and the lowest number, [B, 1, S, Sk]. Source:
// eager_attention_forward of 218 of 322 modeling_*.py (the others leave the softmax's type to
// autocast; those that module names tell apart do so here), eager_mask of masking_utils.py,
// transformers 5.17.
// O(calls).
void WriteAttentionOut(Program& program, const TrainingSettings& settings);

}  // namespace onnxfit

// Attention written out in Python, for models that train with attn_implementation="eager".
#pragma once

#include <string_view>

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
// is written out anew in this run's types (written_attention.cc).  A mask of bools, and a causal
// one that a kernel needs no tensor for, become zeros and the lowest number, [B, 1, S, Sk]. Source:
// eager_attention_forward of 218 of 322 modeling_*.py (the others leave the softmax's type to
// autocast; those that module names tell apart do so here), eager_mask of masking_utils.py,
// transformers 5.17.
// O(calls).
void WriteAttentionOut(Program& program, const TrainingSettings& settings);

// --- Attention that a library wrote out in Python (written_attention.cc) --------------------
// Internal to the room writer/.

// The call that stands for transformers' eager attention, as scaled_dot_product_attention; ints:
// whether it drops out, 0, a SoftmaxType.
inline constexpr std::string_view kEagerAttention = "eager_attention";

enum SoftmaxType : int64_t {
  kInFp32,      // softmax(weights, dtype=float32).to(q.dtype)
  kLeft,        // softmax(weights): autocast decides
  kLeftAndCast  // softmax(weights).type(v.dtype)
};

// Makes one kEagerAttention of the calls that eager_attention_forward makes, by the line of its
// caller, "attention_interface(" of transformers 5.17: products, scale, mask, softmax, cast,
// dropout, heads that are repeated.  An export in fp32 shows neither which casts a run in 16 bits
// makes nor which names hold what; WriteAttentionOut, which writes the call out again, knows.
// Whether there was one.  O(calls).
bool GatherWrittenAttention(Program& program);

}  // namespace onnxfit

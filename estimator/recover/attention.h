// Scaled-dot-product attention, which exporters write in its parts.  Internal to the room
// program/.
#pragma once

#include <optional>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// F.scaled_dot_product_attention (q, k, v, mask), as exporters write it:
//
//   MatMul (q·c, kᵀ·c)  [Add mask]  Softmax  [Where IsNaN]  [Dropout]  MatMul v
//
// It is known by its scale, a number whose square root multiplies q and kᵀ each: attention
// written by hand scales once, and runs in PyTorch as it is written.
// ints: 1 where it drops out, 1 where it is causal.  `last` is the product with v.
std::optional<Rewritten> FindAttention(const BoundGraph& bound, NodeId last);

// torch.zeros (…, dtype=query.dtype) in the place of a bias that an attention does not have:
// T5's between decoder and encoder.  `last` makes it.
std::optional<Rewritten> FindZeroBias(const BoundGraph& bound, NodeId last);

// proj.unflatten(-1, (3, E)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous(), of which
// q, k and v are proj[0], proj[1], proj[2]: torch.nn.MultiheadAttention's projection of all
// three.  The copy leaves no node; `last` is the Squeeze.
// Source: _in_projection_packed of torch/nn/functional.py, pytorch v2.11.0.
std::optional<Rewritten> FindPackedProjection(const BoundGraph& bound, NodeId last);

}  // namespace onnxfit

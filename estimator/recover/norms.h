// Norms that exporters write in their parts.  Internal to the room recover/.
#pragma once

#include <optional>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// torch.rsqrt, which exporters write as 1 / √x; `last` is the division or Reciprocal.
std::optional<Rewritten> FindRsqrt(const BoundGraph& bound, NodeId last);

// weight * (x * rsqrt (mean (x.to (float32) ** 2) + ε)) of a module, in its parts as PyTorch
// runs them.  The cast does nothing in the fp32 model that was exported, and tracing gives its
// name to x itself; in 16 bits
//   with a cast back behind the product, x is in fp32 up to there   (Llama)
//   without one, only its square is, and the product of both        (T5)
// `last` is the product with the weight.  Norms that cast nothing are left as their nodes.
// Sources: T5LayerNorm and LlamaRMSNorm of transformers 5.17.
std::optional<Rewritten> FindRmsNorm(const BoundGraph& bound, NodeId last);

// torch.nn.functional.rms_norm, which torch.export takes apart and PyTorch 2.9 and later does not:
// the source line calls it.  `last` is the product with the weight.
std::optional<Rewritten> FindFusedRmsNorm(const BoundGraph& bound, NodeId last);
// The same without a weight.
std::optional<Rewritten> FindPlainRmsNorm(const BoundGraph& bound, NodeId last);

// torch.nn.LayerNorm before opset 17; `last` adds the bias.
std::optional<Rewritten> FindLayerNorm(const BoundGraph& bound, NodeId last);

}  // namespace onnxfit

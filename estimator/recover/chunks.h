// torch.chunk, which exporters write as slices.  Internal to the room recover/.
#pragma once

#include <optional>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// x.chunk(n, dim): TorchScript's exporter writes one slice a chunk, from 0 to the end of x, and
// each begins with the very product at which the one before ends (torch 2.11,
// torchscript_exporter/symbolic_opset11.py, prim_constant_chunk); x[:, :n] and x[:, n:] of a
// model's code have two numbers there, or an open end.  `last` is the last slice.
std::optional<Rewritten> FindChunk(const BoundGraph& bound, NodeId last);

}  // namespace onnxfit

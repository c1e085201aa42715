// Positions that are counted without padding, as TorchScript's exporter writes them.  Internal to
// the room recover/.
#pragma once

#include <optional>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// x != y, which ONNX has no operator for: not (x == y).  `last` is the Not.
std::optional<Rewritten> FindNotEqual(const BoundGraph& bound, NodeId last);

// (torch.cumsum(mask, dim=1).type_as(mask) + 0) * mask, create_position_ids_from_input_ids of
// transformers 5.17 (modeling_roberta.py): the file has a sum in the mask's type, which PyTorch
// makes in 64 bits, and no + 0.  `last` is the Mul.
std::optional<Rewritten> FindTokenPositions(const BoundGraph& bound, NodeId last);

}  // namespace onnxfit

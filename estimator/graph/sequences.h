// The shapes in lists of tensors.  ONNX's types give all tensors of a list one shape, and
// none where they differ, as after a split into unequal parts.  Internal to the room graph/.
#pragma once

#include <optional>
#include <vector>

#include "estimator/graph/constants.h"

namespace onnxfit {

// By element.
using ListDims = std::vector<Dims>;

// What a node that makes a list (SplitToSequence, SequenceConstruct) puts into it; nullopt
// for other nodes, and where that depends on data.
std::optional<ListDims> ListOf(const Call& call);

// The shape of the tensor that a node takes from `list`, its input 0 (SequenceAt,
// ConcatFromSequence); nullopt for other nodes, and where that depends on data.
std::optional<Dims> TakenFrom(const Call& call, const ListDims& list);

}  // namespace onnxfit

// The shapes in lists of tensors.  ONNX's types give all tensors of a list one shape, and
// none where they differ, as after a split into unequal parts.  Internal to the room onnx/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/onnx/constants.h"

namespace onnxfit {

// By element.
using ListDims = std::vector<Dims>;

// Sizes of all lists of a graph together, where each part is a few more (PartCost), and each part
// is one more whenever a node reads all of them.  Lists beyond are not followed.
inline constexpr int64_t kMaxListSizes = 1 << 23;

// How many sizes a part of `rank` dimensions counts for.
constexpr int64_t PartCost(size_t rank) { return static_cast<int64_t>(rank) + 4; }

// What a node that makes a list (SplitToSequence, SequenceConstruct) puts into it; nullopt
// for other nodes, where that depends on data, and where it costs more than `left`, from which it
// is taken.
std::optional<ListDims> ListOf(const Call& call, int64_t& left);

// The shape of the tensor that a node takes from `list`, its input 0 (SequenceAt,
// ConcatFromSequence); nullopt as above.
std::optional<Dims> TakenFrom(const Call& call, const ListDims& list, int64_t& left);

}  // namespace onnxfit

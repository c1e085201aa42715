// How a tensor that ranks share, each a part of one dimension, passes through a call.  Internal to
// the room transforms/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "estimator/program/program.h"

namespace onnxfit {

// The dimension of a value that is shared.  Each of its `before` whole parts has its ranks' parts:
// [batch × heads, …] is shared by heads within each sample.
struct Shard {
  size_t dim = 0;
  int64_t before = 1;

  bool operator==(const Shard&) const = default;
};

// The inputs whose elements the call reads: of what type_as is given second it asks the type.
std::span<const NameId> ReadInputs(const AtenCall& call);

using ShardOf = std::function<std::optional<Shard>(NameId)>;

// The shard of the call's outputs, which each rank computes from its own parts alone; nothing
// where no rank could, or where it is not known that it can.
// REQUIRES: an input that is read is shared.  `ranks`: a dimension is shared evenly or not at all.
std::optional<Shard> ShardBehind(const Program& program, const AtenCall& call,
                                 const ShardOf& shard_of, int64_t ranks);

}  // namespace onnxfit

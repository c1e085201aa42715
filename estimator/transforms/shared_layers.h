// Which linear layers ranks can share.  Internal to the room transforms/.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/program.h"
#include "estimator/transforms/linear_layers.h"
#include "estimator/transforms/shard_rules.h"

namespace onnxfit {

// A layer that plans name.
struct SharedLayer {
  LinearLayer layer;
  ParallelStyle style = ParallelStyle::kNone;
  std::string whole_for = {};  // why it stays whole; "": it is shared
};

struct SharedLayers {
  std::vector<SharedLayer> layers;           // in the order of the module's parameters
  std::unordered_map<NameId, Shard> shards;  // of values between them
};

// By RankSettings::tensor_parallel and shares_head.
SharedLayers FindSharedLayers(const Program& program, const RankSettings& ranks);

}  // namespace onnxfit

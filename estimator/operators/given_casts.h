// What modules under fully_shard are given, in the type of their policy.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/program/program.h"

namespace onnxfit {

// `program` with a cast to `type`, before each run of the modules that fully_shard(module) is put
// on by `globs` (sharded_modules.h), of each float that it is given, which lives until the run has
// ended: cast_forward_inputs of torch.distributed.fsdp.MixedPrecisionPolicy, in
// FSDPState._pre_forward (_fully_shard/_fsdp_state.py, pytorch v2.11.0).  REQUIRES: before
// Dispatch, where what has the type already is not cast.  Throws Error as ShardedModules does.
Program CastGivenToModules(Program program, const std::vector<std::string>& globs, DType type);

}  // namespace onnxfit

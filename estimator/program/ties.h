// Parameters that several modules have by names of their own ("lm_head.weight =
// embed_tokens.weight"), where what is done to a model is done to each name.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Whether the names stay apart until one of the functions below joins them: adapters stand beside
// each layer that has the parameter, and weights are packed and sharded module by module.
bool KeepsTiesApart(const TrainingSettings& settings);

// One parameter for all names, the first of them, but for what was packed: each layer is given a
// packed weight of its own (bitsandbytes 0.50.2, nn/modules.py, Linear4bit.__init__).
// O(calls + ties × parameters).
void JoinTies(Program& program);

// The same within each module that fully_shard is put on.  What several of these have stays several
// parameters, and a tie of the program: a group sets its shard on its own modules alone
// (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, _get_param_module_infos, pytorch
// v2.11.0).
void JoinTiesWithinShards(Program& program, const std::vector<std::string>& globs);

}  // namespace onnxfit

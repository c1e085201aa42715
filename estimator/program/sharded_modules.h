// The modules that torch.distributed.fsdp.fully_shard is put on, each with its tensors.
#pragma once

#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/program/program.h"

namespace onnxfit {

struct ShardedModule {
  std::string path = {};                // "" of the whole model
  std::vector<NameId> parameters = {};  // of no other one in it, in the order of model.to("cuda")
  std::vector<NameId> buffers = {};     // the same
  std::vector<CallSpan> runs = {};      // of its forward, in order
};

// The whole model, then those modules in it that `globs` name, in the order of named_modules()
// (checkpointed_spans.h has what "auto" names; of blocks that never run it takes those whose
// tensors say that they repeat).  A tensor is of the module in whose path its name lies, else of
// the one whose runs alone read it, else of the whole model.  Throws Error where a glob names no
// module that runs.  O(calls × depth × globs + tensors × modules).
std::vector<ShardedModule> ShardedModules(const Program& program,
                                          const std::vector<std::string>& globs);

// The globs of the settings: none are the blocks that repeat.
std::vector<std::string> ShardedGlobs(const RankSettings& ranks);

}  // namespace onnxfit

// What of the values between shared layers ranks share, too: each has a part of the tokens.
// Internal to the room transforms/.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/program/program.h"
#include "estimator/transforms/shard_rules.h"
#include "estimator/transforms/shared_layers.h"

namespace onnxfit {

// What stands before call `before` of the program: from there to call `last`, calls read `made`
// where they name `name`; then it dies.
struct TokenCall {
  std::string_view op = {};
  NameId name = kNoName;
  NameId given = kNoName;  // what stands for `name` there
  NameId made = kNoName;
  int64_t before = 0;
  int64_t last = 0;
  ModuleId module = kOutside;
  // Of what is gathered behind a module: its first call.  Names outside of it die behind that.
  int64_t begin = 0;
};

struct SharedTokens {
  std::vector<TokenCall> calls;              // in order
  std::unordered_map<NameId, Shard> shards;  // of values of which each rank has some tokens
  std::set<int64_t> distributed;             // calls on DTensors
  std::set<NameId> replicated;               // tensors of norms
};

// The plan of torchtitan's models and of PyTorch's tutorial on tensor parallelism: the first block
// takes the rank's own tokens of what it is given; modules that have columns put them together
// (PrepareModuleInput), rows leave each rank its own (output_layouts=Shard(1)); norms between them
// are replicated (SequenceParallel).  Behind the blocks, and what passes on tokens alone behind
// them, all have all tokens again, as have shared layers outside of blocks.  Adds what is made to
// the program, with all of its tokens. Throws Error where blocks do not repeat, tokens are not
// shared evenly, or a block needs all of them elsewhere.  O(calls × depth of modules).
SharedTokens FindSharedTokens(Program& program, const SharedLayers& layers, int64_t ranks,
                              const std::string& path);

}  // namespace onnxfit

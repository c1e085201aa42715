// Pipeline parallelism: the parts of a model that run on ranks of their own, one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// The call with which each of `ranks.world` stages begins, 0 for the first.  Others begin with a
// module: those that ranks.pipeline.begins names, else with blocks that repeat, which are shared
// as torchtitan 0.2.0 shares layers (generate_llm_fqn_per_model_part, distributed/
// pipeline_parallel.py): what is before them counts as one, what is behind them, too, and what is
// left over goes to the first stages.  Throws Error where there are fewer, and where a stage would
// have no call.  O(calls × depth of modules).
std::vector<int32_t> StageBegins(const Program& program, const RankSettings& ranks);

// What stage `stage` runs.  Of what calls before it have made it computes anew what no parameter
// has a part in (masks, angles of rotations), from inputs that it is given, too; the rest it
// receives.  It has the tensors that its calls read, and of those that none reads what lies in its
// modules; the last one has the loss.  Values keep their names.  Throws Error where it has nothing
// to train.  O(calls × depth of modules).
// REQUIRES: no call of `program` is dispatched yet.
Program StageOf(const Program& program, const std::vector<int32_t>& begins, size_t stage);

// Puts the checkpoints that the settings ask for on calls, as if they were the model's own, so that
// each stage has those of its blocks.  Throws Error as CheckpointedSpans does.
void MarkCheckpoints(Program& program, const TrainingSettings& settings);

// "h.4 to h.7": the blocks that it begins and ends with; modules, where these are in none.
std::string StageText(const Program& program, const std::vector<int32_t>& begins, size_t stage);

}  // namespace onnxfit

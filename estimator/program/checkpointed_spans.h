// Which parts of a program torch.utils.checkpoint is put around.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Calls `first` to `last`, both included, of one run of a module: of `module`, where modules around
// it run no others and it is known which.
struct CallSpan {
  int32_t first = 0;
  int32_t last = 0;
  ModuleId module = kOutside;

  bool operator==(const CallSpan& other) const {
    return first == other.first && last == other.last;
  }
};

// What stands for the blocks that repeat, as a glob does for names.
inline constexpr char kAutoCheckpoint[] = "auto";
// "every=2": the second of them in the order of named_modules(), the fourth …, as torchtitan 0.2.0
// counts for selective_ac_option (distributed/activation_checkpoint.py).
inline constexpr char kEveryCheckpoint[] = "every=";

// The runs of the modules that `globs` of `flag` name, the outermost where one is in another, in
// order; "auto" names the blocks that repeat: modules with a number for a name beside others of the
// same parent, that have modules in them, the outermost ("transformer.h.*", "layer1.*"), as
// libraries put checkpoints around their layers (transformers 5.17, modeling_layers.py,
// GradientCheckpointingLayer; timm 1.0.31, models/_manipulate.py, checkpoint_seq).  Empty for no
// globs.  Throws Error where a glob names no module that runs, with those that do.
// O(calls × depth × globs).
std::vector<ModuleRun> OutermostRuns(const Program& program, const std::vector<std::string>& globs,
                                     std::string_view flag);

// Those of --checkpoint, and, without a flag, the model's own: what the file shows of them.  "auto"
// of models whose library is known to choose others (libraries/checkpointed_layers.cc) names those.
std::vector<CallSpan> CheckpointedSpans(const Program& program,
                                        const std::vector<std::string>& globs);

// Whether they are reentrant: as the flag says, or the model's own are.
bool AreReentrant(const Program& program, const TrainingSettings& settings);

}  // namespace onnxfit

// Changes of a run that need less memory: those that are rows of a table, and those whose flags
// or cost depend on the model.  Internal to the room advise/.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/advise/advice.h"
#include "estimator/base/framework.h"
#include "estimator/base/settings.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/target.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// What is changed: two changes of one part exclude each other.
enum class ChangedPart : uint8_t {
  kAllocator,
  kOptimizerImpl,
  kStepInBackward,
  kZeroGrad,
  kAttention,
  kInPlace,
  kHeldOutputs,
  kRecomputed,
  kPrefetch,
  kAverage,
  kBatch,
  kOptimizer,
  kPrecision,
  kQuantized,
  kTrained,
  kSize,
  kRanks,
  kBuckets,
  kOffload,
  kPredictions,
};

// Whether PyTorch runs the same program all the same.
constexpr bool KeepsProgram(ChangedPart part) {
  return part == ChangedPart::kAllocator || part == ChangedPart::kOptimizerImpl ||
         part == ChangedPart::kStepInBackward || part == ChangedPart::kZeroGrad ||
         part == ChangedPart::kRecomputed || part == ChangedPart::kPrefetch ||
         part == ChangedPart::kAverage || part == ChangedPart::kBatch ||
         part == ChangedPart::kOptimizer || part == ChangedPart::kRanks ||
         part == ChangedPart::kBuckets || part == ChangedPart::kOffload ||
         part == ChangedPart::kPredictions;
}

// A run that needs too much, and the card.
struct AdviceCase {
  const Study& study;
  const EstimateRequest& request;  // by the worse reading; settings.device is the target's
  const Target& target;
  const LoopedPrediction& asked;  // of `request`
  ReadingPrograms& programs;      // the same, and by the guess

  int64_t batch() const { return asked.prediction->shapes().batch; }
  bool is_training() const { return request.settings.mode == Mode::kTrain; }
};

// Stands for the batch in `flags`.
inline constexpr std::string_view kBatchMark = "{batch}";

struct Change {
  ChangedPart part = ChangedPart::kAllocator;
  CostClass cost_class = CostClass::kFree;
  std::string what = {};
  std::string flags = {};
  std::string cost = {};
  std::function<void(EstimateRequest&)> apply = {};
  int slower_percent = 0;   // as Advice has it
  std::string source = {};  // the same
  bool moves_much = false;  // so that nobody's figure tells the time, here or beside others
};

// Whether the batch can be taken in parts: an optimizer in backward steps after each of them.
inline bool TakesParts(const AdviceCase& c) {
  return !c.is_training() || !c.request.settings.optimizer_in_backward;
}

// Those that apply, cheapest first.  A smaller batch is not among them: whoever knows the batch
// makes it.
std::vector<Change> ChangesFor(const AdviceCase& c);

// Of more, the third stands for all that follow: like the second, it finds gradients there.  So
// batches are searched; what is found is played with as many as are printed.
inline constexpr int64_t kTracedMicroBatches = 3;
inline constexpr int64_t kMostPlayedMicroBatches = 16;  // of more, that many

// The asked batch in smaller ones, `most` of them: `micro_batch` divides it.
Change SmallerBatch(const AdviceCase& c, int64_t micro_batch,
                    int64_t most = kMostPlayedMicroBatches);

// `flags` with the batch in its place.
std::string FlagsAt(const Change& change, int64_t batch);

// What follows makes changes whose flags or cost depend on the model.

// Changes that apply: growing segments, optimizers with less state, frozen modules, smaller sizes.
std::vector<Change> ModelChanges(const AdviceCase& c);

// A parameter, as far as freezing goes.
struct NamedCount {
  std::string name;
  int64_t numel = 0;
};

// All parameters but those of the last modules, as globs.
struct FrozenGlobs {
  std::vector<std::string> globs;
  std::vector<std::string> kept;  // the modules that still learn
  int64_t learning = 0;           // elements of these
};

// "model.fc", "wte, h.11 and ln_f", "a, b, c and 4 more": what still learns.
std::string KeptText(const FrozenGlobs& found);

// Keeps the last module, and those before it until one part in 200 learns.  nullopt where that is
// all, or where it takes more than four globs.
std::optional<FrozenGlobs> GlobsBeforeLast(std::span<const NamedCount> parameters);

// What an optimizer keeps of a matrix of 1024 x 1024 parameters in fp32: what tells them apart.
int64_t SampleStateBytes(Optimizer optimizer, const FrameworkProfile& framework);

}  // namespace onnxfit

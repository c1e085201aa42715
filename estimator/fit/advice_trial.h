// Changes, tried on a card.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "estimator/fit/advice.h"
#include "estimator/fit/advice_change.h"
#include "estimator/fit/readings.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

// One or more changes of one run, and how that run is judged.
struct Trial {
  std::vector<Change> changes;
  EstimateRequest request;
  Judgement judgement;
  int64_t saved_bytes = 0;  // of what is used; below 0 where more is
};

// `request` with the changes, in their order.
EstimateRequest Changed(const EstimateRequest& request, std::span<const Change> changes);

// The changed run at any batch.  Where the program stays, it is that of the case.
class ChangedLoops {
 public:
  // Throws Error where a change does not apply.
  ChangedLoops(const AdviceCase& c, std::span<const Change> changes);

  ReadingLoops& loops() { return *loops_; }

 private:
  std::optional<ReadingPrograms> own_;
  std::optional<ReadingLoops> loops_;
};

// Whether `judgement` is what advice is for: it runs, or fits where `before` is tight.
bool IsEnough(const Judgement& judgement, const Judgement& before);

// The asked batch changed so and judged; a change of the batch without `apply` becomes the largest
// part of the batch that runs, or 1.  nullopt where the changed run has no answer (a graph of
// fixed size, an optimizer without such an implementation), or another batch.
std::optional<Trial> Try(const AdviceCase& c, const Judgement& before,
                         std::span<const Change> changes);

// What Try() is to fill in: smaller batches, whose size depends on all other changes.
Change AnySmallerBatch();

// A line of advice; its effect is the caller's to say.
Advice AdviceOf(const AdviceCase& c, std::span<const Change> changes);

}  // namespace onnxfit

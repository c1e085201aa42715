// Changes, tried on a card alone and together.  Internal to the room advise/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/advise/advice.h"
#include "estimator/advise/changes.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/target.h"
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

// The same of loops that are changed so, at a batch of theirs.
Trial TrialOf(const AdviceCase& c, const Judgement& before, std::span<const Change> changes,
              ReadingLoops& loops, int64_t batch);

// What Try() is to fill in: smaller batches, whose size depends on all other changes.
Change AnySmallerBatch();

// A line of advice; its effect is the caller's to say.
Advice AdviceOf(const AdviceCase& c, std::span<const Change> changes);

// Several changes together, of those that `singles` tried, which are enough and cost less than any
// that is enough alone: of the cheapest class of cost that has such, none of them to spare, the
// costliest left out first.  nullopt where there are none.  At most kMostCombined plays.
std::optional<Trial> FindCombination(const AdviceCase& c, const Judgement& before,
                                     std::span<const Trial> singles);
inline constexpr int kMostCombined = 40;

// What follows is shared by the two questions for advice.

// The request on its card, without what is asked beside the bytes.
EstimateRequest PlainRequest(const EstimateRequest& request, const Target& target);

// Each change alone, in their order, but for those that do not apply.
std::vector<Trial> TryEach(const AdviceCase& c, const Judgement& before,
                           const std::vector<Change>& changes);

bool IsMixedPrecision(const Change& change);

// Where weights, gradients and moments dominate, of mixed precision that is not enough:
// "amp-bf16 does not help: 14.5 GiB of 18.1 GiB are …".
void SayWhyMixedFails(const AdviceCase& c, std::string_view precision, Advice& advice);

bool AnyIsEnough(const std::vector<Advice>& all);

// For a run that no card of the table holds.
Advice ManyCards(const AdviceCase& c);

// What helps most for least: enough before some before none, then cheapest, then what takes least
// time, then what it gives.
void Rank(std::vector<Advice>& all);

}  // namespace onnxfit

// What the two questions for advice share.  Internal to the room fit/.
#pragma once

#include <string_view>
#include <vector>

#include "estimator/fit/advice.h"
#include "estimator/fit/advice_change.h"
#include "estimator/fit/advice_trial.h"
#include "estimator/fit/target.h"

namespace onnxfit {

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

// What helps most for least: enough before some before none, then cheapest, then what it gives.
void Rank(std::vector<Advice>& all);

}  // namespace onnxfit

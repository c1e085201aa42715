#include "estimator/advise/advice.h"

#include <algorithm>

#include "estimator/advise/changes.h"
#include "estimator/advise/larger_cards.h"
#include "estimator/advise/trials.h"
#include "estimator/base/bytes.h"
#include "estimator/fit/predict.h"

namespace onnxfit {
namespace {

Advice AdviceOfTrial(const AdviceCase& c, const Judgement& before, const Trial& trial) {
  Advice advice = AdviceOf(c, trial.changes);
  advice.effect = IsEnough(trial.judgement, before) ? Effect::kEnough : Effect::kSome;
  advice.judgement = trial.judgement;
  advice.saved_bytes = std::max<int64_t>(0, trial.saved_bytes);
  const Change& first = trial.changes[0];
  if (trial.changes.size() == 1 && advice.effect == Effect::kSome && IsMixedPrecision(first)) {
    SayWhyMixedFails(c, ToString(trial.request.settings.precision), advice);
  }
  return advice;
}

// What saves less than one part in 100 is not worth a line.
bool IsWorthALine(const Advice& advice, const Judgement& before) {
  return advice.effect != Effect::kSome || advice.saved_bytes >= before.used_bytes / 100;
}

void AddCards(const AdviceCase& c, const Judgement& before, std::vector<Advice>& all) {
  const auto card = FindLargerCard(c, before, c.target.total_bytes + 1);
  const auto sharded = FindShardedRun(c, before);
  if (card) all.push_back(AdviceOf(*card));
  if (sharded) all.push_back(AdviceOfTrial(c, before, *sharded));
  if (!card && !sharded && before.verdict == Verdict::kOom) all.push_back(ManyCards(c));
}

}  // namespace

std::vector<Advice> AdviseAtBatch(const Study& study, const EstimateRequest& request,
                                  const JudgedTarget& judged) {
  const Judgement& before = judged.judgement;
  if (before.verdict == Verdict::kFits) return {};
  const EstimateRequest plain = PlainRequest(request, judged.target);
  const int64_t batch = study.Prepared(plain)->file->shapes.batch;
  ReadingPrograms programs(study, ReadingsOf(plain, DoubtsAt(study, plain)), batch);
  const EstimateRequest& own = programs.worse();
  const LoopedPrediction asked = PredictLoop(study, own);
  const AdviceCase c = {study, own, judged.target, asked, programs};
  std::vector<Change> changes = ChangesFor(c);
  if (c.batch() > 1 && TakesParts(c)) changes.push_back(AnySmallerBatch());
  const std::vector<Trial> singles = TryEach(c, before, changes);
  std::vector<Advice> all;
  for (const Trial& trial : singles) all.push_back(AdviceOfTrial(c, before, trial));
  if (before.verdict == Verdict::kOom) {
    const auto found = FindCombination(c, before, singles);
    if (found) all.push_back(AdviceOfTrial(c, before, *found));
  }
  AddCards(c, before, all);
  std::erase_if(all, [&](const Advice& advice) { return !IsWorthALine(advice, before); });
  Rank(all);
  return all;
}

void AddAdvice(const Study& study, const EstimateRequest& request, Estimate& estimate) {
  if (estimate.targets.size() != 1) return;
  estimate.targets[0].advice = AdviseAtBatch(study, request, estimate.targets[0]);
}

void AddAdvice(const Study& study, const EstimateRequest& request, const BatchLimits& limits,
               MaxBatchAnswer& answer) {
  if (answer.rows.size() != 1) return;
  answer.rows[0].advice = AdviseMaxBatch(study, request, answer.rows[0].found, limits);
}

}  // namespace onnxfit

#include "estimator/fit/advice.h"

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/fit/advice_cards.h"
#include "estimator/fit/advice_change.h"
#include "estimator/fit/advice_combinations.h"
#include "estimator/fit/advice_lines.h"
#include "estimator/fit/advice_trial.h"

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
  if (const auto card = FindLargerCard(c, before, c.target.total_bytes + 1)) {
    all.push_back(AdviceOf(*card));
  } else if (before.verdict == Verdict::kOom) {
    all.push_back(ManyCards(c));
  }
}

}  // namespace

std::string_view ToString(CostClass cost_class) {
  constexpr std::string_view kNames[] = {"free",      "time",        "tuning",
                                         "precision", "trains less", "money"};
  return kNames[static_cast<size_t>(cost_class)];
}

std::string_view ToString(Effect effect) {
  constexpr std::string_view kNames[] = {"enough", "some", "none"};
  return kNames[static_cast<size_t>(effect)];
}

std::vector<Advice> AdviseAtBatch(const Graph& file, const EstimateRequest& request,
                                  const JudgedTarget& judged) {
  const Judgement& before = judged.judgement;
  if (before.verdict == Verdict::kFits) return {};
  const EstimateRequest plain = PlainRequest(request, judged.target);
  ReadingPrograms programs(file, ReadingsOf(plain, DoubtsAt(file, plain)));
  const EstimateRequest& own = programs.worse();
  const LoopedPrediction asked = PredictLoop(file, own);
  const AdviceCase c = {file, own, judged.target, asked, programs};
  std::vector<Change> changes = ChangesFor(c);
  if (c.batch() > 1) changes.push_back(AnySmallerBatch());
  const std::vector<Trial> singles = TryEach(c, before, changes);
  std::vector<Advice> all;
  for (const Trial& trial : singles) all.push_back(AdviceOfTrial(c, before, trial));
  if (before.verdict == Verdict::kOom && !AnyIsEnough(all)) {
    const auto found = FindCombination(c, before, singles);
    if (found) all.push_back(AdviceOfTrial(c, before, *found));
  }
  AddCards(c, before, all);
  std::erase_if(all, [&](const Advice& advice) { return !IsWorthALine(advice, before); });
  Rank(all);
  return all;
}

std::string WhyNotLargest(const Target& target, Mode mode) {
  const ContextBytes& context = target.device.context;
  const int64_t differ = context.high - context.low;
  std::string text = "A little less is safer: drivers and contexts differ by up to ";
  text += differ > 0 ? FormatBytes(differ) : "a few hundred MiB";
  text += ", and on a full card retries take time.";
  if (mode == Mode::kEval) return text;
  return text + " Very large batches generalise worse unless the learning rate is tuned along.";
}

}  // namespace onnxfit

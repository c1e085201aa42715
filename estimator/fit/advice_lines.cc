#include "estimator/fit/advice_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/parallel.h"
#include "estimator/fit/advice_cards.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {
namespace {

struct StateShare {
  int64_t state_bytes = 0;
  int64_t peak_bytes = 0;

  bool dominates() const { return state_bytes > peak_bytes / 2; }
};

StateShare StateShareOf(const Prediction& p) {
  const Timeline timeline = Replay(p.trace, p.alloc_conf);
  StateShare share = {.state_bytes = 0, .peak_bytes = timeline.exact_at_peak};
  for (const Kind kind : {Kind::kParameter, Kind::kGradient, Kind::kOptimizerState}) {
    share.state_bytes += timeline.bytes_by_kind[static_cast<size_t>(kind)];
  }
  return share;
}

}  // namespace

EstimateRequest PlainRequest(const EstimateRequest& request, const Target& target) {
  EstimateRequest plain = request;
  plain.settings.device = target.device;
  plain.targets.clear();
  plain.details = false;
  plain.why.clear();
  return plain;
}

std::vector<Trial> TryEach(const AdviceCase& c, const Judgement& before,
                           const std::vector<Change>& changes) {
  std::vector<std::optional<Trial>> trials(changes.size());
  ForEachIndex(changes.size(), [&](size_t i) { trials[i] = Try(c, before, {&changes[i], 1}); });
  std::vector<Trial> found;
  for (std::optional<Trial>& trial : trials) {
    if (trial) found.push_back(std::move(*trial));
  }
  return found;
}

bool IsMixedPrecision(const Change& change) { return change.what == "mixed precision"; }

void SayWhyMixedFails(const AdviceCase& c, std::string_view precision, Advice& advice) {
  const StateShare share = StateShareOf(c.asked.prediction);
  if (!share.dominates()) return;
  advice.effect = Effect::kNone;
  advice.why =
      fmt::format("{} does not help: {} of {} are {}, which stay fp32", precision,
                  FormatBytes(share.state_bytes), FormatBytes(share.peak_bytes),
                  c.is_training() ? "parameters, gradients and optimizer state" : "parameters");
}

bool AnyIsEnough(const std::vector<Advice>& all) {
  return std::any_of(all.begin(), all.end(),
                     [](const Advice& advice) { return advice.effect == Effect::kEnough; });
}

Advice ManyCards(const AdviceCase& c) {
  if (const auto several = SeveralCards(c)) return *several;
  return {.change = "a larger card",
          .cost_class = CostClass::kMoney,
          .effect = Effect::kNone,
          .why = fmt::format("no card that we know holds batch {} at once", c.batch())};
}

void Rank(std::vector<Advice>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Advice& a, const Advice& b) {
    const auto rank = [](const Advice& x) {
      return std::tuple(x.effect, x.cost_class, -x.max_batch.value_or(0) * x.accumulate,
                        -x.saved_bytes);
    };
    return rank(a) < rank(b);
  });
}

}  // namespace onnxfit

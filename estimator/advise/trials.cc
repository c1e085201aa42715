#include "estimator/advise/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/advise/larger_cards.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/fit/batch_search.h"
#include "estimator/memory/plan_trials.h"
#include "estimator/memory/timeline.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostAccumulated = 1024;  // as many as --accumulate takes

// Those below `batch`, largest first.
std::vector<int64_t> Divisors(int64_t batch) {
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= batch / d; ++d) {
    if (batch % d != 0) continue;
    if (d < batch) divisors.push_back(d);
    if (d > 1 && batch / d != d) divisors.push_back(batch / d);
  }
  std::sort(divisors.rbegin(), divisors.rend());
  return divisors;
}

// `changes` with smaller batches of that size.
std::vector<Change> InParts(const AdviceCase& c, std::span<const Change> changes, int64_t part,
                            int64_t most = kMostPlayedMicroBatches) {
  std::vector<Change> filled = {changes.begin(), changes.end()};
  for (Change& change : filled) {
    if (!change.apply) change = SmallerBatch(c, part, most);
  }
  return filled;
}

// Whether it is, with as many parts as there are.
bool IsEnoughInParts(const AdviceCase& c, const Judgement& before, std::span<const Change> changes,
                     int64_t part) {
  ChangedLoops changed(c, InParts(c, changes, part));
  return IsEnough(changed.loops().JudgeOneAt(part, c.target), before);
}

// How many passes a step takes in such parts: what --accumulate has to say.
int64_t PassesOf(const AdviceCase& c, int64_t part) {
  return c.is_training() ? c.request.settings.loop.accumulate * (c.batch() / part) : 1;
}

// The largest part of the batch that is enough, or the smallest that can be typed.
int64_t LargestPart(const AdviceCase& c, const Judgement& before, std::span<const Change> changes) {
  ChangedLoops changed(c, InParts(c, changes, 1, kTracedMicroBatches));
  BatchSearch search(changed.loops().all(), c.target, before.verdict == Verdict::kTight);
  int64_t smallest = c.batch();
  for (const int64_t part : Divisors(c.batch())) {
    if (PassesOf(c, part) > kMostAccumulated) break;
    smallest = part;
    if (search.Runs(part) && IsEnoughInParts(c, before, changes, part)) return part;
  }
  return smallest;
}

std::optional<Trial> TryOrThrow(const AdviceCase& c, const Judgement& before,
                                std::span<const Change> changes) {
  const bool in_parts = std::any_of(changes.begin(), changes.end(),
                                    [](const Change& change) { return !change.apply; });
  const int64_t part = in_parts ? LargestPart(c, before, changes) : c.batch();
  const std::vector<Change> filled = InParts(c, changes, part);
  ChangedLoops changed(c, filled);
  return TrialOf(c, before, filled, changed.loops(), part);
}

std::string TimeText(int slower_percent) {
  if (slower_percent == 0) return "as fast";
  return fmt::format("about {}% {} time", std::abs(slower_percent),
                     slower_percent > 0 ? "more" : "less");
}

void AddPart(std::string_view separator, const std::string& text, std::string& to) {
  if (!to.empty()) to += separator;
  to += text;
}

}  // namespace

EstimateRequest Changed(const EstimateRequest& request, std::span<const Change> changes) {
  EstimateRequest changed = request;
  // The batch first: sizes of whole inputs follow it.
  for (const bool of_batch : {true, false}) {
    for (const Change& change : changes) {
      const bool now = (change.part == ChangedPart::kBatch) == of_batch;
      if (now && change.apply) change.apply(changed);
    }
  }
  return changed;
}

ChangedLoops::ChangedLoops(const AdviceCase& c, std::span<const Change> changes) {
  std::vector<Change> others = {changes.begin(), changes.end()};
  std::erase_if(others, [](const Change& change) { return change.part == ChangedPart::kBatch; });
  const auto change = [&](EstimateRequest& request) {
    const int64_t accumulate = Changed(request, changes).settings.loop.accumulate;
    request = Changed(request, others);
    request.settings.loop.accumulate = accumulate;
  };
  const bool keeps = std::all_of(others.begin(), others.end(),
                                 [](const Change& other) { return KeepsProgram(other.part); });
  if (!keeps) {
    std::vector<Reading> readings = c.programs.readings();
    for (Reading& reading : readings) change(reading.request);
    own_.emplace(c.study, std::move(readings), c.batch());
  }
  loops_.emplace(own_ ? *own_ : c.programs, change);
}

bool IsEnough(const Judgement& judgement, const Judgement& before) {
  return before.verdict == Verdict::kOom ? judgement.verdict != Verdict::kOom
                                         : judgement.verdict == Verdict::kFits;
}

std::optional<Trial> Try(const AdviceCase& c, const Judgement& before,
                         std::span<const Change> changes) {
  try {
    return TryOrThrow(c, before, changes);
  } catch (const Error&) {
    return std::nullopt;
  }
}

Trial TrialOf(const AdviceCase& c, const Judgement& before, std::span<const Change> changes,
              ReadingLoops& loops, int64_t batch) {
  Trial trial;
  trial.changes = {changes.begin(), changes.end()};
  trial.request = Changed(c.request, changes);
  trial.judgement = loops.JudgeOneAt(batch, c.target);
  trial.saved_bytes = before.used_bytes - trial.judgement.used_bytes;
  return trial;
}

Change AnySmallerBatch() { return {.part = ChangedPart::kBatch, .cost_class = CostClass::kTime}; }

Advice AdviceOf(const AdviceCase& c, std::span<const Change> changes) {
  Advice advice;
  const int64_t batch = Changed(c.request, changes).binding.batch.value_or(c.batch());
  double time = 1;
  for (const Change& change : changes) {
    AddPart(&change == &changes.back() ? " and " : ", ", change.what, advice.change);
    AddPart(" ", FlagsAt(change, batch), advice.flags);
    AddPart("; ", change.cost, advice.cost);
    advice.cost_class = std::max(advice.cost_class, change.cost_class);
    time *= 1 + change.slower_percent / 100.0;
    if (advice.source.find(change.source) == std::string::npos) {
      AddPart("; ", change.source, advice.source);
    }
  }
  advice.slower_percent = static_cast<int>(std::lround(100 * (time - 1)));
  if (std::ranges::any_of(changes, &Change::moves_much)) {
    advice.slower_percent = 0;
    advice.source.clear();
    AddPart("; ", "much more time", advice.cost);
  } else if (!advice.source.empty()) {
    AddPart("; ", fmt::format("{} ({})", TimeText(advice.slower_percent), advice.source),
            advice.cost);
  }
  return advice;
}

// What follows is shared by the two questions for advice.
namespace {

struct StateShare {
  int64_t state_bytes = 0;
  int64_t peak_bytes = 0;

  bool dominates() const { return state_bytes > peak_bytes / 2; }
};

StateShare StateShareOf(const Prediction& p) {
  const Timeline timeline = Replay(WithoutTrials(p.trace), p.alloc_conf);
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
  const StateShare share = StateShareOf(*c.asked.prediction);
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
      // How much longer another optimizer takes until it is there, nobody knows.
      const int slower_percent = x.cost_class == CostClass::kTuning ? 0 : x.slower_percent;
      return std::tuple(x.effect, x.cost_class, slower_percent,
                        -x.max_batch.value_or(0) * x.accumulate, -x.saved_bytes);
    };
    return rank(a) < rank(b);
  });
}

}  // namespace onnxfit

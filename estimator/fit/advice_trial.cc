#include "estimator/fit/advice_trial.h"

#include <algorithm>

#include "estimator/base/error.h"
#include "estimator/fit/batch_search.h"

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
  Trial trial;
  trial.changes = InParts(c, changes, part);
  trial.request = Changed(c.request, trial.changes);
  ChangedLoops changed(c, trial.changes);
  trial.judgement = changed.loops().JudgeOneAt(part, c.target);
  trial.saved_bytes = before.used_bytes - trial.judgement.used_bytes;
  return trial;
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
    own_.emplace(c.file, std::move(readings));
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

Change AnySmallerBatch() { return {.part = ChangedPart::kBatch, .cost_class = CostClass::kTime}; }

Advice AdviceOf(const AdviceCase& c, std::span<const Change> changes) {
  Advice advice;
  const int64_t batch = Changed(c.request, changes).binding.batch.value_or(c.batch());
  for (const Change& change : changes) {
    AddPart(" and ", change.what, advice.change);
    AddPart(" ", FlagsAt(change, batch), advice.flags);
    AddPart("; ", change.cost, advice.cost);
    advice.cost_class = std::max(advice.cost_class, change.cost_class);
  }
  return advice;
}

}  // namespace onnxfit

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "estimator/advise/advice.h"
#include "estimator/advise/changes.h"
#include "estimator/advise/larger_cards.h"
#include "estimator/advise/trials.h"
#include "estimator/base/error.h"
#include "estimator/base/parallel.h"
#include "estimator/fit/batch_search.h"
#include "estimator/fit/doubts.h"

namespace onnxfit {
namespace {

// Whose largest batch is to be raised.
struct Question {
  const AdviceCase& c;  // at that batch, or the least that is of use
  const MaxBatch& answer;
  int64_t batch = 0;  // the one to take
  const BatchLimits& limits;
  Judgement before = {};  // of the least batch, where that does not run

  // What FITS is raised to what FITS, what only runs to what runs.
  bool is_strict() const { return limits.is_strict || FittingOf(answer).batch > 0; }

  // What costs something is to give so much.
  int64_t WorthBatches() const { return std::max<int64_t>(1, batch / 20); }
};

// What is printed fits, or runs; the few runs around it are read off.
int64_t LargestBatchOn(const Question& q, const std::vector<BatchLoops*>& loops,
                       const Target& target) {
  return BatchSearch(loops, target, q.is_strict()).LargestAbout(q.batch, q.limits);
}

// Where nothing runs as asked: what fits rather than what runs.
BatchOutcome LargestOutcome(const Question& q, ReadingLoops& loops, const Target& target) {
  const auto judged = [&](int64_t batch) {
    return BatchOutcome{batch, batch > 0 ? loops.JudgeOneAt(batch, target) : Judgement()};
  };
  const BatchOutcome running = judged(LargestBatchOn(q, loops.all(), target));
  if (running.batch == 0 || running.judgement.verdict == Verdict::kFits) return running;
  BatchLimits below = q.limits;
  below.most = running.batch;
  const int64_t fitting = BatchSearch(loops.all(), target, true).LargestAbout(running.batch, below);
  return fitting > 0 ? judged(fitting) : running;
}

// Whether at the asked batch as many bytes are saved as some more samples take.
bool MayRaise(const Question& q, const Change& change, BatchLoops& changed) {
  // The one saves no tensor's bytes, the other takes fewer for each sample.
  if (change.part == ChangedPart::kAllocator || change.part == ChangedPart::kRecomputed)
    return true;
  const int64_t saved = PeakBytes(q.c.asked.playable()) - PeakBytes(changed.At(q.c.batch()));
  const bool is_free = change.cost_class == CostClass::kFree;
  return saved > (is_free ? 0 : q.answer.per_sample_bytes * q.WorthBatches());
}

// --- Changes of the run -------------------------------------------------------------------

struct Raise {
  std::vector<Change> changes;
  int64_t batch = 0;                        // 0 where it gains too little
  std::optional<Trial> tried = {};          // of the least batch, where that does not run as asked
  std::optional<Judgement> judgement = {};  // of `batch` there: not all that runs fits
};

Raise RaiseWith(const Question& q, std::span<const Change> changes) {
  Raise raise = {{changes.begin(), changes.end()}};
  ChangedLoops changed(q.c, changes);
  if (q.batch == 0) {
    raise.tried = TrialOf(q.c, q.before, changes, changed.loops(), q.c.batch());
    if (!IsEnough(raise.tried->judgement, q.before)) return raise;
  } else if (!MayRaise(q, changes[0], changed.loops().of_worse())) {
    return raise;
  }
  if (q.batch > 0) {
    raise.batch = LargestBatchOn(q, changed.loops().all(), q.c.target);
    return raise;
  }
  const BatchOutcome largest = LargestOutcome(q, changed.loops(), q.c.target);
  raise.batch = largest.batch;
  if (largest.batch > 0) raise.judgement = largest.judgement;
  return raise;
}

// Without a batch where it does not apply.
Raise RaiseBy(const Question& q, const Change& change) {
  try {
    return RaiseWith(q, {&change, 1});
  } catch (const Error&) {
    return {{change}};
  }
}

std::vector<Raise> RaiseByEach(const Question& q, const std::vector<Change>& changes) {
  std::vector<Raise> raises(changes.size());
  ForEachIndex(changes.size(), [&](size_t i) {
    if (q.limits.progress) q.limits.progress(fmt::format("trying {}", changes[i].flags));
    raises[i] = RaiseBy(q, changes[i]);
  });
  return raises;
}

bool IsWorthALine(const Question& q, const Raise& raise) {
  const bool is_free = raise.changes[0].cost_class == CostClass::kFree;
  return raise.batch >= q.batch + (is_free ? 1 : q.WorthBatches());
}

Advice AdviceOfRaise(const Question& q, const Raise& raise) {
  EstimateRequest at_batch = q.c.request;
  SetBatch(q.c.study.file(), q.c.batch(), raise.batch, at_batch);
  const AdviceCase c = {q.c.study, at_batch, q.c.target, q.c.asked, q.c.programs};
  Advice advice = AdviceOf(c, raise.changes);
  advice.max_batch = raise.batch;
  advice.judgement = raise.judgement;
  return advice;
}

void AddRaises(const Question& q, const std::vector<Raise>& raises, std::vector<Advice>& all) {
  for (const Raise& raise : raises) {
    if (IsWorthALine(q, raise)) {
      all.push_back(AdviceOfRaise(q, raise));
    } else if (IsMixedPrecision(raise.changes[0])) {
      Advice advice = AdviceOfRaise(q, {raise.changes, q.batch});
      const EstimateRequest request = Changed(q.c.request, raise.changes);
      SayWhyMixedFails(q.c, ToString(request.settings.precision), advice);
      advice.max_batch.reset();
      if (advice.effect == Effect::kNone) all.push_back(std::move(advice));
    }
  }
}

// Not even the least batch runs: of what makes one run, what is cheaper than each change alone.
void AddCombinedRaise(const Question& q, const std::vector<Raise>& raises,
                      std::vector<Advice>& all) {
  std::vector<Trial> singles;
  for (const Raise& raise : raises) {
    if (raise.tried) singles.push_back(*raise.tried);
  }
  const auto found = FindCombination(q.c, q.before, singles);
  if (!found) return;
  const Raise raise = RaiseWith(q, found->changes);
  if (raise.batch > 0) all.push_back(AdviceOfRaise(q, raise));
}

// --- What is no change of it --------------------------------------------------------------

std::function<void(EstimateRequest&)> InPasses(int64_t count) {
  return [count](EstimateRequest& request) { request.settings.loop.accumulate = count; };
}

// The largest batch of which `count`, as are printed, and as many as one likes make a step.
int64_t LargestOfPasses(const Question& q, int64_t count) {
  ReadingLoops many(q.c.programs, InPasses(kTracedMicroBatches));
  ReadingLoops printed(q.c.programs, InPasses(std::min(count, kMostPlayedMicroBatches)));
  std::vector<BatchLoops*> loops = many.all();
  for (BatchLoops* of_printed : printed.all()) loops.push_back(of_printed);
  return LargestBatchOn(q, loops, q.c.target);
}

// Several batches a step: as few as make it larger.
void AddAccumulation(const Question& q, std::vector<Advice>& all) {
  if (!q.c.is_training() || !TakesParts(q.c)) return;
  const int64_t now = q.c.request.settings.loop.accumulate;
  int64_t count = 2 * now;
  int64_t batch = LargestOfPasses(q, count);
  if (batch > 0 && batch * count <= q.batch * now) {
    count = now * (q.batch / batch + 1);
    batch = LargestOfPasses(q, count);
  }
  if (batch * count <= q.batch * now) return;
  all.push_back({.change = "gradient accumulation",
                 .flags = fmt::format("-b {} --accumulate {}", batch, count),
                 .cost = "as many samples a step as you like, in passes of this size",
                 .cost_class = CostClass::kTime,
                 .max_batch = batch,
                 .accumulate = count});
}

// Several of this card, where none runs the least batch alone.
bool AddSharded(const Question& q, std::vector<Advice>& all) {
  const auto found = FindShardedRun(q.c, q.before);
  if (!found) return false;
  const Raise raise = RaiseWith(q, found->changes);
  if (raise.batch > 0) all.push_back(AdviceOfRaise(q, raise));
  return raise.batch > 0;
}

// A card for a little more would be no advice.
constexpr int64_t kWorthAnother = 150;  // per cent of this one's memory

void AddCard(const Question& q, std::vector<Advice>& all) {
  const int64_t bytes = q.c.target.total_bytes;
  const Judgement before = {.verdict = q.is_strict() ? Verdict::kTight : Verdict::kOom};
  const auto card =
      FindLargerCard(q.c, before, q.batch > 0 ? bytes / 100 * kWorthAnother : bytes + 1);
  const bool is_sharded = q.batch == 0 && AddSharded(q, all);
  if (!card) {
    if (q.batch == 0 && !is_sharded) all.push_back(ManyCards(q.c));
    return;
  }
  Advice advice = AdviceOf(*card);
  ReadingLoops loops(q.c.programs, [&](EstimateRequest& request) {
    request.settings.device = card->target.device;
  });
  advice.max_batch = q.batch > 0 ? LargestBatchOn(q, loops.all(), card->target)
                                 : LargestOutcome(q, loops, card->target).batch;
  advice.judgement.reset();
  if (*advice.max_batch > q.batch) all.push_back(std::move(advice));
}

// Advice that does not apply leaves the answer as it is.
void IfItApplies(const std::function<void()>& add) {
  try {
    add();
  } catch (const Error&) {
    return;
  }
}

}  // namespace

std::vector<Advice> AdviseMaxBatch(const Study& study, const EstimateRequest& request,
                                   const MaxBatch& answer, const BatchLimits& limits) {
  if (answer.is_limited) return {};
  ReadingPrograms programs(study, PlainRequest(request, answer.target), 1);
  const int64_t least = std::max<int64_t>(1, limits.multiple_of);
  const int64_t batch = RecommendedOf(answer).batch;
  const EstimateRequest own = RequestAt(study, programs.worse(), std::max(batch, least));
  const LoopedPrediction asked = PredictLoop(study, own);
  const AdviceCase c = {study, own, answer.target, asked, programs};
  Question q = {c, answer, batch, limits};
  if (batch == 0) q.before = ReadingLoops(programs).JudgeOneAt(c.batch(), answer.target);
  if (batch == 0 && limits.is_strict)
    q.before.verdict = Verdict::kTight;  // what is TIGHT is not enough
  const std::vector<Raise> raises = RaiseByEach(q, ChangesFor(c));
  std::vector<Advice> all;
  AddRaises(q, raises, all);
  IfItApplies([&] { batch > 0 ? AddAccumulation(q, all) : AddCombinedRaise(q, raises, all); });
  IfItApplies([&] { AddCard(q, all); });
  Rank(all);
  return all;
}

}  // namespace onnxfit

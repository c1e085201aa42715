#include "estimator/fit/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/batch_search.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/allocator.h"
#include "estimator/memory/card_run.h"

namespace onnxfit {
namespace {

// The largest figures of one step.
struct StepPeak {
  int32_t step = 0;
  int64_t reserved_bytes = 0;
  int64_t device_bytes = 0;
};

std::vector<StepPeak> StepPeaks(const GpuReplay& replay) {
  std::vector<StepPeak> peaks;
  for (const PhaseFigures& phase : replay.phases) {
    if (phase.step == 0) continue;
    if (peaks.empty() || peaks.back().step != phase.step) peaks.push_back({.step = phase.step});
    StepPeak& peak = peaks.back();
    peak.reserved_bytes = std::max(peak.reserved_bytes, phase.peak.reserved_bytes);
    peak.device_bytes = std::max(peak.device_bytes, phase.peak_device_bytes);
  }
  return peaks;
}

constexpr int64_t kPageBytes = 2 * kMiB;  // in which cards hand out memory, whatever is asked

// Any tolerance but 0 allows for a page.
bool IsWithin(int64_t predicted, int64_t measured, double tolerance) {
  const int64_t difference = std::abs(measured - predicted);
  const double allowed = tolerance * static_cast<double>(predicted);
  return static_cast<double>(difference) <= allowed || (tolerance > 0 && difference <= kPageBytes);
}

ProofRow RowOf(std::string what, int64_t predicted, int64_t measured, double tolerance) {
  return {std::move(what), predicted, measured, IsWithin(predicted, measured, tolerance)};
}

std::string StepsText(int32_t first, int32_t last) {
  return first == last ? fmt::format("peak of step {}", first)
                       : fmt::format("peak of steps {}-{}", first, last);
}

void AddStepRows(const GpuReplay& predicted, const GpuReplay& measured, double tolerance,
                 std::vector<ProofRow>& rows) {
  const std::vector<StepPeak> expected = StepPeaks(predicted);
  const std::vector<StepPeak> found = StepPeaks(measured);
  const size_t steps = std::min(expected.size(), found.size());
  for (size_t first = 0; first < steps;) {
    size_t end = first + 1;
    const auto is_alike = [&](size_t i) {
      return expected[i].reserved_bytes == expected[first].reserved_bytes &&
             found[i].device_bytes == found[first].device_bytes;
    };
    while (end < steps && is_alike(end)) ++end;
    rows.push_back(RowOf(StepsText(expected[first].step, expected[end - 1].step),
                         expected[first].reserved_bytes, found[first].device_bytes, tolerance));
    first = end;
  }
}

int64_t PeakAllocatedBytes(const GpuReplay& replay) {
  int64_t most = 0;
  for (const PhaseFigures& phase : replay.phases) {
    most = std::max(most, phase.peak.allocated_bytes);
  }
  return most;
}

// Reserved minus allocated, at their peaks.  Its tolerance is of all that is reserved: a share
// of what little is cached says nothing.
ProofRow CachedRow(const GpuReplay& predicted, const GpuReplay& measured, double tolerance) {
  int64_t reserved = 0;
  int64_t lost = 0;
  for (const StepPeak& peak : StepPeaks(predicted)) {
    reserved = std::max(reserved, peak.reserved_bytes);
  }
  for (const StepPeak& peak : StepPeaks(measured)) lost = std::max(lost, peak.device_bytes);
  return {"reserved - allocated", reserved - PeakAllocatedBytes(predicted),
          lost - PeakAllocatedBytes(measured), IsWithin(reserved, lost, tolerance)};
}

bool IsComplete(const GpuReplay& replay) { return !replay.failure && !replay.was_stopped; }

// A card that counts fails, too, or is so full that the tolerance decides.
bool IsForeseen(const GpuReplay& predicted, double tolerance) {
  int64_t most = 0;
  for (const StepPeak& peak : StepPeaks(predicted)) most = std::max(most, peak.reserved_bytes);
  const auto free_bytes = static_cast<double>(predicted.before.free_bytes);
  return predicted.failure || static_cast<double>(most) * (1 + tolerance) >= free_bytes;
}

Proof ProofOf(const Verification& verification) {
  const GpuReplay& measured = verification.measured;
  if (measured.was_stopped) return Proof::kStopped;
  const auto holds = [](const ProofRow& row) { return row.holds; };
  const bool is_as_predicted =
      std::all_of(verification.rows.begin(), verification.rows.end(), holds);
  if (!is_as_predicted || measured.wrong_bytes > 0) return Proof::kFail;
  if (measured.failure) return verification.fails_at->was_predicted ? Proof::kOom : Proof::kFail;
  return verification.predicted.failure ? Proof::kFail : Proof::kPass;
}

SharedPrediction PredictSteps(const Study& study, const EstimateRequest& request, int steps) {
  SharedPrediction prediction = study.Predicted(request);
  const Loop loop = ReadLoop(prediction->trace);
  if (steps <= loop.traced_steps() || loop.repeats()) return prediction;
  EstimateRequest longer = request;
  longer.settings.steps = steps;
  return study.Predicted(longer);
}

}  // namespace

ProofFailure FailureOf(const Trace& trace, const GpuFailure& failure, const AllocatorConf& conf) {
  const TracePlace place = PlaceOf(trace, failure.event);
  const int64_t tried = TriedBytes(failure.asked_bytes, conf);
  return {.failure = {.step = failure.step,
                      .phase = place.phase,
                      .node = place.at < 0 ? "" : trace.labels[Index(place.at)],
                      .asked_bytes = failure.asked_bytes,
                      .short_bytes = std::max<int64_t>(0, tried - failure.free_bytes),
                      .tried_bytes = tried},
          .free_bytes = failure.free_bytes};
}

std::string_view ToString(Proof proof) {
  constexpr std::string_view kNames[] = {"pass", "fail", "oom", "stopped"};
  return kNames[static_cast<size_t>(proof)];
}

int64_t Verification::exact_phases() const {
  int64_t exact = 0;
  const size_t phases = std::min(predicted.phases.size(), measured.phases.size());
  for (size_t i = 0; i < phases; ++i) {
    if (predicted.phases[i].stats.reserved_bytes == measured.phases[i].device_bytes) ++exact;
  }
  return exact;
}

std::vector<ProofRow> CompareReplays(const GpuReplay& predicted, const GpuReplay& measured,
                                     double tolerance) {
  std::vector<ProofRow> rows;
  if (predicted.phases.empty() || measured.phases.empty()) return rows;
  rows.push_back(RowOf("after setup", predicted.phases[0].stats.reserved_bytes,
                       measured.phases[0].device_bytes, tolerance));
  AddStepRows(predicted, measured, tolerance, rows);
  const bool has_peak = IsComplete(predicted) && IsComplete(measured);
  if (has_peak) rows.push_back(CachedRow(predicted, measured, tolerance));
  return rows;
}

Verification Verify(const Study& study, const EstimateRequest& request, const DetectedGpu& gpu,
                    Gpu& card, const VerifyLimits& limits, const ReplayWatch& watch) {
  EstimateRequest own = request;
  own.targets.clear();
  own.wants_range = false;
  if (own.settings.cudnn_benchmark) own.settings.trial_room_bytes = gpu.free_bytes;
  Verification verification;
  verification.gpu = gpu;
  verification.limits = limits;
  verification.estimate = MakeEstimate(study, own);

  const SharedPrediction shared = PredictSteps(study, own, limits.steps);
  const Prediction& prediction = *shared;
  const Loop loop = ReadLoop(prediction.trace);
  const std::vector<int64_t> bytes = BytesOf(prediction.trace);
  const auto replay_on = [&](Gpu& on, const ReplayWatch& watched) {
    return ReplayOnGpu(prediction.trace, loop, bytes, limits.steps, on, prediction.alloc_conf,
                       watched);
  };
  const MemoryReading before = card.Read();
  const auto counting = NewCountingGpu(before.free_bytes, before.total_bytes);
  verification.predicted = replay_on(*counting, {});
  verification.measured = replay_on(card, watch);
  verification.rows =
      CompareReplays(verification.predicted, verification.measured, limits.tolerance);
  if (verification.measured.failure) {
    const GpuFailure& failure = *verification.measured.failure;
    verification.fails_at = FailureOf(prediction.trace, failure, prediction.alloc_conf);
    verification.fails_at->was_predicted = IsForeseen(verification.predicted, limits.tolerance);
  }
  verification.context_bytes = before.process_bytes;
  verification.proof = ProofOf(verification);
  return verification;
}

// What follows looks for the largest batch on the card.
namespace {

// A card that has as much for tensors as is free now, to the byte.
Target FreeTarget(const DetectedGpu& gpu, const DeviceProfile& device, int64_t free_bytes) {
  Target target = {.name = gpu.name, .device = device};
  target.device.context = {};
  target.total_bytes = free_bytes;
  return target;
}

class ReplaySearch {
 public:
  ReplaySearch(BatchLoops& loops, Gpu& card, const ReplayWatch& watch, VerifiedMaxBatch& answer)
      : loops_(loops), card_(card), watch_(watch), answer_(answer) {}

  void Run() {
    const int64_t first = std::max<int64_t>(1, answer_.predicted.batch);
    int64_t runs = 0;
    int64_t fails = 0;
    if (Runs(first)) {
      runs = first;
      fails = FailureAbove(runs);
    } else {
      fails = first;
      runs = SuccessBelow(fails);
    }
    while (fails - runs > 1 && !answer_.was_stopped) {
      const int64_t middle = runs + (fails - runs) / 2;
      (Runs(middle) ? runs : fails) = middle;
    }
    answer_.batch = runs;
  }

 private:
  // Moves `runs` up to the last that was seen to run; beyond kMostBatch none is tried.
  int64_t FailureAbove(int64_t& runs) {
    for (int64_t step = 1;; step *= 2) {
      const int64_t next = runs + step;
      if (next > kMostBatch || !Runs(next)) return next;
      runs = next;
    }
  }

  // Moves `fails` down to the first that was seen to fail; 0 where none runs.
  int64_t SuccessBelow(int64_t& fails) {
    for (int64_t step = 1; fails > step; step *= 2) {
      const int64_t next = fails - step;
      if (Runs(next)) return next;
      fails = next;
    }
    return fails > 1 && Runs(1) ? 1 : 0;
  }

  // Once stopped, no batch runs: the search ends.
  bool Runs(int64_t batch) {
    if (answer_.was_stopped) return false;
    const PlayableRun run = loops_.At(batch);
    const int steps =
        run.loop->repeats() ? answer_.steps : std::min(answer_.steps, run.loop->traced_steps());
    const GpuReplay replay =
        ReplayOnGpu(*run.trace, *run.loop, run.bytes, steps, card_, run.conf, watch_);
    answer_.was_stopped = replay.was_stopped;
    answer_.wrong_bytes = replay.wrong_bytes;  // the card counts them all
    if (replay.was_stopped) return false;
    answer_.replayed.push_back({.batch = batch});
    if (replay.failure) {
      answer_.replayed.back().failure = FailureOf(*run.trace, *replay.failure, run.conf);
    }
    return !replay.failure;
  }

  BatchLoops& loops_;
  Gpu& card_;
  const ReplayWatch& watch_;
  VerifiedMaxBatch& answer_;
};

}  // namespace

VerifiedMaxBatch FindMaxBatchOn(const Study& study, const EstimateRequest& request,
                                const DetectedGpu& gpu, Gpu& card, int steps,
                                const ReplayWatch& watch) {
  VerifiedMaxBatch answer;
  answer.model = study.file().path;
  answer.settings = request.settings;
  answer.dims = WithoutMissing(study.file(), request.binding).dims;
  answer.gpu = gpu;
  answer.steps = steps;
  answer.free_bytes = card.Read().free_bytes;
  const Target target = FreeTarget(gpu, request.settings.device, answer.free_bytes);
  answer.predicted =
      FindMaxBatches(study, request, {&target, 1}, {.detail = BatchDetail::kBatch})[0];
  ReadingPrograms programs(study, request, 1);
  ReadingLoops loops(programs);
  ReplaySearch(loops.of_worse(), card, watch, answer).Run();
  return answer;
}

}  // namespace onnxfit

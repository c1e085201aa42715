#include "estimator/fit/verify_max_batch.h"

#include <algorithm>
#include <utility>

#include "estimator/fit/batch_loops.h"
#include "estimator/fit/batch_search.h"
#include "estimator/fit/readings.h"
#include "estimator/fit/verify_failure.h"

namespace onnxfit {
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

VerifiedMaxBatch FindMaxBatchOn(const Graph& file, const EstimateRequest& request,
                                const DetectedGpu& gpu, Gpu& card, int steps,
                                const ReplayWatch& watch) {
  VerifiedMaxBatch answer;
  answer.model = file.path;
  answer.settings = request.settings;
  answer.dims = WithoutMissing(file, request.binding).dims;
  answer.gpu = gpu;
  answer.steps = steps;
  answer.free_bytes = card.Read().free_bytes;
  const Target target = FreeTarget(gpu, request.settings.device, answer.free_bytes);
  answer.predicted =
      FindMaxBatches(file, request, {&target, 1}, {.detail = BatchDetail::kBatch})[0];
  ReadingPrograms programs(file, request, 1);
  ReadingLoops loops(programs);
  ReplaySearch(loops.of_worse(), card, watch, answer).Run();
  return answer;
}

}  // namespace onnxfit

#include "estimator/fit/copies.h"

#include <algorithm>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostCopies = 1000;  // an answer beyond this is of no use to anyone

// What the model puts on the card: all that setup allocates.
std::vector<BufferId> PlacedBuffers(const Loop& loop) {
  std::vector<BufferId> placed;
  for (const Loop::Call& call : loop.CallsOf(0)) {
    if (!call.frees) placed.push_back(call.buffer);
  }
  return placed;
}

bool FitsTimes(const PlayableRun& run, const Target& target, int64_t copies) {
  const std::vector<BufferId> placed = PlacedBuffers(*run.loop);
  Loop loop = *run.loop;
  PlayableRun many = run;
  std::vector<Loop::Call> more;
  for (int64_t copy = 1; copy < copies; ++copy) {
    for (const BufferId buffer : placed) {
      more.push_back({.buffer = static_cast<BufferId>(many.bytes.size())});
      many.bytes.push_back(run.bytes[Index(buffer)]);
    }
  }
  const size_t setup_end = loop.CallsOf(0).size();
  loop.calls.insert(loop.calls.begin() + static_cast<int64_t>(setup_end), more.begin(), more.end());
  for (size_t step = 1; step < loop.steps.size(); ++step) loop.steps[step] += more.size();
  for (size_t id = loop.twins.size(); id < many.bytes.size() && loop.repeats(); ++id) {
    loop.twins.push_back(static_cast<BufferId>(id));
  }
  many.loop = &loop;
  return RunsOn(many, target);
}

}  // namespace

int64_t MostCopies(const PlayableRun& run, const Target& target) {
  int64_t placed_bytes = 1;
  for (const BufferId buffer : PlacedBuffers(*run.loop)) placed_bytes += run.bytes[Index(buffer)];
  int64_t fits = 1;
  int64_t fails = std::min(target.capacity_bytes() / placed_bytes, kMostCopies) + 1;
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    (FitsTimes(run, target, middle) ? fits : fails) = middle;
  }
  return fits;
}

}  // namespace onnxfit

// Steps of loops that differ, through one allocator.
#include "estimator/memory/series_run.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/loop.h"
#include "tests/trace_helpers.h"

namespace onnxfit::series_run_test {
namespace {

constexpr CardRoom kEndless = {std::numeric_limits<int64_t>::max()};

// A weight; each step allocates x, keeps it until the next one has its own, and has scratch
// between.
Trace StepsOf(int64_t x_bytes, int64_t scratch_bytes, int steps = 3) {
  Trace trace;
  const auto add = [&](int64_t bytes) {
    trace.buffers.push_back({.bytes = bytes});
    const auto id = static_cast<BufferId>(trace.buffers.size()) - 1;
    trace.events.push_back({.type = Event::Type::kAlloc, .id = id});
    return id;
  };
  const auto free = [&](BufferId id) {
    trace.events.push_back({.type = Event::Type::kFree, .id = id});
  };
  add(1000);
  BufferId before = -1;
  for (int step = 1; step <= steps; ++step) {
    trace.events.push_back({.type = Event::Type::kPhase, .phase = Phase::kForward, .id = step});
    const BufferId x = add(x_bytes);
    const BufferId scratch = add(scratch_bytes);
    if (before >= 0) free(before);
    free(scratch);
    before = x;
  }
  return trace;
}

struct Sized {
  explicit Sized(const Trace& trace) : loop(ReadLoop(trace)), bytes(BytesOf(trace)) {}
  Loop loop;
  std::vector<int64_t> bytes;
  SeriesLoop of() const { return {&loop, bytes}; }
};

std::vector<int64_t> ReservedOf(const SeriesRun& run) {
  std::vector<int64_t> reserved;
  for (const SeriesRun::Step& step : run.steps) reserved.push_back(step.reserved_bytes / kMiB);
  return reserved;
}

}  // namespace

TEST_CASE("a step finds what another of its own size left") {
  const Sized small(StepsOf(12 * kMiB, 14 * kMiB));
  const Sized large(StepsOf(30 * kMiB, 40 * kMiB));
  REQUIRE(small.loop.repeats());
  const std::vector<SeriesLoop> loops = {small.of(), large.of()};
  REQUIRE(CanFollow(loops));
  // The weight has a segment of 2 MiB, 12 and 14 their own.  The second step's 12 take what 14
  // left, and 14 more come; 30 and 40 fit in none of them.  The next 30 take what 40 left, and 40
  // more come.
  const SeriesRun run = PlaySeries(loops, std::vector<int32_t>{0, 0, 1, 1, 0, 0, 1}, kEndless);
  CHECK(run.fits);
  CHECK(ReservedOf(run) == std::vector<int64_t>{28, 42, 112, 152, 152, 152, 152});
  CHECK(run.steps[0].peak_allocated_bytes == 26 * kMiB + 1024);
  CHECK(run.steps[3].peak_allocated_bytes == 100 * kMiB + 1024);
  CHECK(run.peak_reserved_bytes == 152 * kMiB);
}

TEST_CASE("a series of one length is a run of it") {
  std::mt19937 random(1);
  for (int i = 0; i < 50; ++i) {
    const auto some = [&] { return static_cast<int64_t>(random() % (40 * kMiB)) + 1; };
    const Sized sized(StepsOf(some(), some()));
    const std::vector<SeriesLoop> loops = {sized.of()};
    for (const CardRoom& room : {kEndless, CardRoom{64 * kMiB}}) {
      const CardRun run = RunOnCard(sized.loop, sized.bytes, 10, room);
      const SeriesRun series = PlaySeries(loops, std::vector<int32_t>(10, 0), room);
      CHECK(series.fits == run.fits);
      CHECK(series.retries == run.retries);
      CHECK(series.peak_reserved_bytes == run.peak_reserved_bytes);
      CHECK(series.failed_step == run.failed_step);
      CHECK(series.asked_bytes == run.asked_bytes);
    }
  }
}

TEST_CASE("a full card gives back what it caches, and then dies") {
  const Sized small(StepsOf(12 * kMiB, 14 * kMiB));
  const Sized large(StepsOf(30 * kMiB, 40 * kMiB));
  const std::vector<SeriesLoop> loops = {small.of(), large.of()};
  const SeriesRun retried = PlaySeries(loops, std::vector<int32_t>{0, 0, 1, 0}, {100 * kMiB});
  CHECK(retried.fits);
  CHECK(retried.retries == 1);
  CHECK(retried.retried_at == 3);
  const SeriesRun dead = PlaySeries(loops, std::vector<int32_t>{0, 0, 1, 1}, {100 * kMiB});
  CHECK(!dead.fits);
  CHECK(dead.failed_step == 4);
  CHECK(dead.failed_loop == 1);
  CHECK(dead.asked_bytes == 40 * kMiB);
  CHECK(dead.steps.size() == 4);
}

TEST_CASE("a step that leaves more cannot follow one that leaves less") {
  Trace more = StepsOf(1, 1);
  more.buffers.push_back({.bytes = 1});
  more.events.push_back({.type = Event::Type::kAlloc, .id = 7});
  const Sized a(StepsOf(1, 1));
  const Sized b(more);
  CHECK(!CanFollow(std::vector<SeriesLoop>{a.of(), b.of()}));
  CHECK(CanFollow(std::vector<SeriesLoop>{a.of(), a.of()}));
}

}  // namespace onnxfit::series_run_test

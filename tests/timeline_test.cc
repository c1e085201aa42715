#include "estimator/memory/timeline.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "tests/trace_writer.h"

namespace onnxfit::timeline_test {
namespace {

TEST_CASE("a trace can say itself") {
  CHECK(ToString(TwoSteps()) == R"(
setup     +w:1000
forward   +h:3000
backward  +w.grad:1000 -h
optimizer +m:1000
forward   -w.grad
)");
}

TEST_CASE("a timeline holds every step's figures and the peak") {
  const Timeline timeline = Replay(TwoSteps());
  REQUIRE(timeline.steps.size() == 2);
  CHECK(timeline.steps[0].after_forward.requested_bytes == 1000 + 3000);
  CHECK(timeline.steps[0].after_backward.requested_bytes == 1000 + 1000);
  CHECK(timeline.steps[0].after_step.requested_bytes == 1000 + 1000 + 1000);
  CHECK(timeline.steps[0].peak.exact_bytes == 1000 + 3000 + 1000);
  CHECK(timeline.steps[0].peak.allocated_bytes == 1024 + 3072 + 1024);
  CHECK(timeline.steps[0].peak.reserved_bytes == 2 * kMiB);
  CHECK(timeline.steps[1].peak.exact_bytes == 3000);  // what step 1 left
  CHECK(timeline.peak == timeline.steps[0].peak);
}

TEST_CASE("the peak knows where it is and what holds it") {
  const Trace trace = TwoSteps();
  const Timeline timeline = Replay(trace);
  CHECK(timeline.peak_step == 1);
  CHECK(timeline.peak_phase == Phase::kBackward);
  CHECK(trace.labels[static_cast<size_t>(timeline.peak_at)] == "relu");
  REQUIRE(timeline.live_at_peak.size() == 3);
  const int64_t temporaries = timeline.bytes_by_kind[static_cast<size_t>(Kind::kTemporary)];
  CHECK(temporaries == 1000);  // not yet w's gradient
  CHECK(timeline.bytes_by_kind[static_cast<size_t>(Kind::kActivation)] == 3000);
  CHECK(trace.labels[static_cast<size_t>(timeline.live_at_peak[1].born)] == "relu");
  CHECK(trace.labels[static_cast<size_t>(timeline.live_at_peak[1].dies)] == "relu");
  CHECK(timeline.live_at_peak[0].born == -1);
  CHECK(timeline.live_at_peak[0].dies == -1);
}

TEST_CASE("sums that 64 bits do not hold are refused") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup);
  writer.Alloc("a", int64_t{1} << 62, Kind::kParameter);
  writer.Alloc("b", int64_t{1} << 62, Kind::kParameter);
  CHECK_THROWS_WITH_AS(Replay(writer.trace()),
                       "sizes above 2^63 bytes cannot be counted (try: a smaller batch or "
                       "dimension)",
                       Error);
}

TEST_CASE("a size that 64 bits hold is an answer, however absurd") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("a", int64_t{1} << 61, Kind::kParameter);
  CHECK(Replay(writer.trace()).peak.reserved_bytes == int64_t{1} << 61);
}

}  // namespace
}  // namespace onnxfit::timeline_test

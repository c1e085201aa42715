#include "estimator/memory/curve.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/trace_writer.h"

namespace onnxfit::curve_test {
namespace {

constexpr size_t kParameters = static_cast<size_t>(Kind::kParameter);
constexpr size_t kActivations = static_cast<size_t>(Kind::kActivation);
constexpr size_t kTemporaries = static_cast<size_t>(Kind::kTemporary);

TEST_CASE("a step is cut where its phases begin, and each slice is where it holds most") {
  const Curve curve = ReadCurve(TwoSteps(), 1, 100);
  REQUIRE(curve.points.size() == 3);
  CHECK(curve.PhaseStarts() == std::vector<size_t>{0, 1, 2});
  CHECK(curve.points[0].phase == Phase::kForward);
  CHECK(curve.points[0].allocated_bytes == 1024 + 3072);
  CHECK(curve.points[1].phase == Phase::kBackward);
  CHECK(curve.points[1].allocated_bytes == 1024 + 3072 + 1024);
  CHECK(curve.points[2].phase == Phase::kOptimizer);
  CHECK(curve.points[2].allocated_bytes == 3 * 1024);
  CHECK(curve.peak == 1);
}

TEST_CASE("bytes go by what holds them at the instant") {
  const CurvePoint peak = ReadCurve(TwoSteps(), 1, 100).points[1];
  CHECK(peak.bytes[kParameters] == 1000);
  CHECK(peak.bytes[kActivations] == 3000);
  CHECK(peak.bytes[kTemporaries] == 1000);
}

// Of operators that make 1, 2, … 100 blocks of 512 bytes that all stay.
Trace Hundred() {
  TraceWriter writer;
  writer.Enter(1, Phase::kForward);
  for (int i = 0; i < 100; ++i) writer.At("op").Alloc("x", 512, Kind::kActivation);
  writer.Enter(1, Phase::kBackward);
  for (BufferId i = 0; i < 100; ++i) writer.At("op").Free(i);
  return writer.trace();
}

TEST_CASE("no more slices than were asked for, and the peak among them") {
  for (const size_t most : std::vector<size_t>{2, 3, 7, 50, 200, 1000}) {
    CAPTURE(most);
    const Curve curve = ReadCurve(Hundred(), 1, most);
    CHECK(curve.points.size() <= most);
    CHECK(curve.points[curve.peak].allocated_bytes == 100 * 512);
    CHECK(curve.PhaseStarts().size() == 2);
  }
  CHECK(ReadCurve(Hundred(), 1, 1000).points.size() == 200);
}

TEST_CASE("where there are more phases than points, neighbours join and the peak stays") {
  TraceWriter writer;
  BufferId next = 0;
  for (int i = 0; i < 60; ++i) {  // as gradients are accumulated
    writer.Enter(1, i % 2 == 0 ? Phase::kForward : Phase::kBackward).At("op");
    writer.Alloc("x", i == 41 ? 4096 : 512, Kind::kActivation).Free(next++);
  }
  for (const size_t most : std::vector<size_t>{1, 7, 59, 60}) {
    CAPTURE(most);
    const Curve curve = ReadCurve(writer.trace(), 1, most);
    CHECK(curve.points.size() == most);
    CHECK(curve.points[curve.peak].allocated_bytes == 4096);
    CHECK(curve.points[curve.peak].phase == Phase::kBackward);
  }
}

TEST_CASE("a step that the trace does not have has no points") {
  const Curve curve = ReadCurve(TwoSteps(), 9, 100);
  CHECK(curve.points.empty());
  CHECK(curve.peak == 0);
}

}  // namespace
}  // namespace onnxfit::curve_test

// What a program had allocated over its time, cut into the points of a drawing.
#include "cli/program_timeline.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "estimator/base/index.h"
#include "tests/snapshot_text.h"

namespace onnxfit::program_timeline_test {
namespace {

TimelinePlot Plot(const std::string& text) {
  const MemorySnapshot snapshot = SnapshotText(text).Take();
  RunCurve drawn = {.curve = CurveOf(snapshot, FollowSnapshot(snapshot), {},
                                     {.points = kTerminalPoints, .layers = 0, .hidden = ""})};
  for (const FrameId frame : drawn.curve.asked_by) {
    drawn.asked_by.push_back(
        frame < 0 ? "" : fmt::format("train.py:{}", snapshot.frames[Index(frame)].line));
  }
  return PlotOf(drawn);
}

TEST_CASE("a point has what lives behind its event, and what stays of it") {
  const TimelinePlot plot = Plot(
      "+w 100 train.py:1:main\n"
      "+a 30 train.py:3:main\n"
      "+b 20 train.py:4:main\n"
      "-b\n"
      "-a\n"
      "+c 10 train.py:3:main\n");
  CHECK(plot.bytes == std::vector<int64_t>{0, 100, 130, 150, 130, 100, 110});
  CHECK(plot.staying_bytes == std::vector<int64_t>{0, 100, 130, 130, 130, 100, 100});
  CHECK(plot.peak == 3);
  CHECK(plot.peak_at == "train.py:4");
}

TEST_CASE("of many events the most of each slice is kept, and turns are marked") {
  std::string text = "+w 1000 train.py:1:main\n";
  for (int turn = 0; turn < 100; ++turn) {
    text += "+a 500 train.py:5:main\n+b " + std::string(turn == 60 ? "900" : "300") +
            " train.py:6:main\n-a\n-b\n";
  }
  const TimelinePlot plot = Plot(text);
  REQUIRE(plot.bytes.size() == kTerminalPoints);
  CHECK(plot.bytes[plot.peak] == 2400);
  CHECK(std::ranges::max(plot.bytes) == 2400);
  CHECK(std::ranges::max(plot.staying_bytes) == 1000);
  CHECK(plot.marks.size() == 100);
  const std::string drawn = TimelineText(plot, {});
  CHECK(drawn.find("▲ 2.34 KiB at train.py:6") != std::string::npos);
  CHECK(drawn.find("turn 1") != std::string::npos);
}

TEST_CASE("a curve of more points than a terminal has keeps its peak") {
  RunCurve drawn;
  for (int64_t point = 0; point < 300; ++point) {
    drawn.curve.requested_bytes.push_back(point == 157 ? 5000 : point);
    drawn.curve.staying_bytes.push_back(point);
    drawn.asked_by.emplace_back();
  }
  drawn.curve.peak = 157;
  drawn.curve.turns = {10, 299};
  const TimelinePlot plot = PlotOf(drawn);
  REQUIRE(plot.bytes.size() == kTerminalPoints);
  CHECK(plot.bytes[plot.peak] == 5000);
  CHECK(plot.staying_bytes[plot.peak] == 157);
  CHECK(plot.marks[1].point == kTerminalPoints - 1);
}

}  // namespace
}  // namespace onnxfit::program_timeline_test

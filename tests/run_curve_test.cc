// A recorded run over its time: which lines have a layer, and what each point shows.
#include "estimator/snapshot/run_curve.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "tests/snapshot_text.h"

namespace onnxfit::run_curve_test {
namespace {

struct Drawn {
  MemorySnapshot snapshot;
  RecordedRun run;
  RecordedCurve curve;
};

Drawn Draw(const std::string& text, size_t points = 100, size_t layers = 7) {
  Drawn drawn = {.snapshot = ParseSnapshotText(text), .run = {}, .curve = {}};
  drawn.run = FollowSnapshot(drawn.snapshot);
  const auto held = HeldByLines(drawn.snapshot, drawn.run, drawn.run.moment.event, "");
  drawn.curve =
      CurveOf(drawn.snapshot, drawn.run, held, {.points = points, .layers = layers, .hidden = ""});
  return drawn;
}

// A layer each: "train.py:3: 0 5 5", "backward: …", "others: …".
std::string LayersText(const Drawn& drawn) {
  std::string text = "\n";
  for (const LineLayer& layer : drawn.curve.layers) {
    switch (layer.what) {
      case LineLayer::What::kLine: {
        const SnapshotFrame& frame = drawn.snapshot.frames[Index(layer.frame)];
        text += fmt::format("{}:{}{}", frame.file, frame.line, layer.is_rest ? " rest" : "");
        break;
      }
      case LineLayer::What::kBackward:
        text += "backward";
        break;
      case LineLayer::What::kEarly:
        text += "early";
        break;
      case LineLayer::What::kOthers:
        text += "others";
    }
    text += ":";
    for (const int64_t bytes : layer.bytes) text += fmt::format(" {}", bytes);
    text += "\n";
  }
  return text;
}

TEST_CASE("lines have layers, the most bytes at the peak first") {
  CHECK(LayersText(Draw("+w 100 train.py:1:main\n"
                        "+a 300 train.py:3:main\n"
                        "+g 20 engine\n"
                        "-a\n"
                        "+b 7 train.py:9:main\n"
                        "-b\n")) == R"(
train.py:3: 0 0 300 300 0 0 0
train.py:1: 0 100 100 100 100 100 100
backward: 0 0 0 20 20 20 20
others: 0 0 0 0 0 7 0
)");
}

TEST_CASE("a line that holds much through packages is told by theirs") {
  const std::string package = " /venv/site-packages/net.py:";
  CHECK(LayersText(Draw("+w 10 train.py:1:main\n"
                        "+a 300" +
                        package +
                        "5:forward train.py:3:main\n"
                        "+b 200" +
                        package +
                        "6:forward train.py:3:main\n"
                        "+c 50 train.py:3:main\n")) == R"(
/venv/site-packages/net.py:5: 0 0 300 300 300
/venv/site-packages/net.py:6: 0 0 0 200 200
train.py:3 rest: 0 0 0 0 50
train.py:1: 0 10 10 10 10
others: 0 0 0 0 0
)");
  // The same lines below one of little are its own bytes.
  CHECK(LayersText(Draw("+w 1000 train.py:1:main\n"
                        "+a 30" +
                        package + "5:forward train.py:3:main\n")) == R"(
train.py:1: 0 1000 1000
train.py:3: 0 0 30
others: 0 0 0
)");
}

TEST_CASE("what was there before the record is a layer, too") {
  CHECK(LayersText(Draw("+w 100 train.py:1:main\n"
                        "+x 40 train.py:2:main\n"
                        "history\n"
                        "-x\n"
                        "+a 10 train.py:3:main\n")) == R"(
train.py:1: 100 100 100
early: 40 0 0
others: 0 0 10
)");
}

TEST_CASE("layers beyond the number asked for are others") {
  CHECK(LayersText(Draw("+a 3 train.py:1:main\n+b 2 train.py:2:main\n+c 1 train.py:3:main\n", 100,
                        1)) == R"(
train.py:1: 0 3 3 3
others: 0 0 2 3
)");
}

TEST_CASE("a point is the moment of its slice with the most, and all that was then") {
  std::string text = "+w 1000 train.py:1:main\nreserve 4096\n";
  for (int turn = 0; turn < 100; ++turn) {
    text += "+a 500 train.py:5:main\n+b " + std::string(turn == 60 ? "900" : "300") +
            " train.py:6:main\n-a\n-b\n";
  }
  const Drawn drawn = Draw(text, 20);
  const RecordedCurve& curve = drawn.curve;
  REQUIRE(curve.requested_bytes.size() == 20);
  CHECK(curve.requested_bytes[curve.peak] == 2400);
  CHECK(std::ranges::max(curve.requested_bytes) == 2400);
  CHECK(drawn.snapshot.frames[Index(curve.asked_by[curve.peak])].line == 6);
  for (size_t point = 0; point < 20; ++point) {
    CAPTURE(point);
    int64_t sum = 0;
    for (const LineLayer& layer : curve.layers) sum += layer.bytes[point];
    CHECK(sum == curve.requested_bytes[point]);
    CHECK(curve.staying_bytes[point] == 1000);
    CHECK(curve.reserved_bytes[point] == 4096);
  }
  CHECK(curve.turns.size() == 100);
  CHECK(curve.events == 402);
}

TEST_CASE("reserved bytes go up and down, from what the end has back") {
  const RecordedCurve curve =
      Draw("reserve 100\n+a 50 train.py:1:main\nhistory\nreserve 70\nrelease 100\n").curve;
  CHECK(curve.reserved_bytes == std::vector<int64_t>{100, 170, 70});
  CHECK(curve.is_cut);
  CHECK_FALSE(Draw("reserve 100\n+a 50 train.py:1:main\n").curve.is_cut);
}

TEST_CASE("where the card was full is marked") {
  const RecordedCurve curve =
      Draw("+a 50 train.py:1:main\noom 500 train.py:2:main\n-a\n+a 60 train.py:1:main\n").curve;
  CHECK(curve.full == 2);
  CHECK(curve.peak == 4);
  CHECK_FALSE(Draw("+a 50 train.py:1:main\n").curve.full);
}

TEST_CASE("without a history there are no points") {
  CHECK(Draw("+a 50 train.py:1:main\nhistory\n").curve.requested_bytes.empty());
}

}  // namespace
}  // namespace onnxfit::run_curve_test

// Which of the user's lines hold the bytes of a moment.
#include "estimator/snapshot/held_lines.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "estimator/snapshot/python_frames.h"
#include "tests/snapshot_text.h"

namespace onnxfit::held_lines_test {
namespace {

// "train.py:9 300 (2)" a line, at the peak.
std::string Held(const std::string& text) {
  const MemorySnapshot snapshot = SnapshotText(text).Take();
  const RecordedRun run = FollowSnapshot(snapshot);
  std::string lines;
  for (const HeldLine& line : HeldByLines(snapshot, run, run.peak.event, "/tmp/hook")) {
    const std::string where =
        line.is_early    ? "early"
        : line.frame < 0 ? "-"
                         : fmt::format("{}:{}", FileNameOf(snapshot.frames[Index(line.frame)]),
                                       snapshot.frames[Index(line.frame)].line);
    lines += fmt::format("{} {} ({})\n", where, line.bytes, line.count);
  }
  return lines;
}

TEST_CASE("bytes are of the innermost line that is the user's own") {
  CHECK(Held("+a 100 site-packages/torch/nn/modules/linear.py:7:forward net.py:3:forward "
             "train.py:9:main\n"
             "+b 200 net.py:3:forward train.py:9:main\n"
             "+c 50 site-packages/timm/layers.py:2:forward train.py:12:main\n"
             "+d 10 site-packages/timm/layers.py:2:forward\n"
             "+e 400 engine\n") ==
        "- 400 (1)\n"
        "net.py:3 300 (2)\n"
        "train.py:12 50 (1)\n"
        "layers.py:2 10 (1)\n");
}

TEST_CASE("a line that calls packages is told by their lines, too") {
  const MemorySnapshot snapshot =
      SnapshotText(
          "+a 10 site-packages/torch/nn/modules/linear.py:7:forward "
          "site-packages/gpt/model.py:3:forward train.py:12:main\n"
          "+b 20 site-packages/gpt/model.py:3:forward train.py:12:main\n"
          "+c 50 site-packages/gpt/model.py:8:forward train.py:12:main\n"
          "+d 5 train.py:12:main\n")
          .Take();
  const RecordedRun run = FollowSnapshot(snapshot);
  const std::vector<HeldLine> lines = HeldByLines(snapshot, run, run.peak.event, "");
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].bytes == 85);
  REQUIRE(lines[0].within.size() == 2);
  CHECK(lines[0].within[0].bytes == 50);
  CHECK(snapshot.frames[Index(lines[0].within[1].frame)].line == 3);
  CHECK(lines[0].within[1].bytes == 30);
  CHECK(lines[0].within[1].count == 2);
}

TEST_CASE("what the run itself put there is no line of the program's") {
  CHECK(Held("+a 100 /tmp/hook/values.py:7:run train.py:9:main\n"
             "+b 100 /tmp/hook/values.py:7:run\n") == "- 100 (1)\ntrain.py:9 100 (1)\n");
}

TEST_CASE("one line is one holder, whichever function asked, and what is freed holds nothing") {
  CHECK(Held("+a 100 train.py:9:<lambda>\n+b 100 train.py:9:main\n+c 500 train.py:10:main\n"
             "-c\n+d 50 train.py:11:main\n") == "train.py:10 500 (1)\ntrain.py:9 200 (2)\n");
}

}  // namespace
}  // namespace onnxfit::held_lines_test

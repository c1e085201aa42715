#include "estimator/snapshot/turns.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "estimator/snapshot/story.h"
#include "tests/snapshot_text.h"

namespace onnxfit::turns_test {
namespace {

// "train.py:5 3": where a turn begins, and how many there are; "" without a loop.
std::string LoopThatKeeps(const std::string& text) {
  const MemorySnapshot snapshot = ParseSnapshotText(text);
  const Turns turns = FindTurns(snapshot, FollowSnapshot(snapshot));
  if (turns.loop < 0) return "";
  const SnapshotFrame& frame = snapshot.frames[static_cast<size_t>(turns.loop)];
  return frame.file + ":" + std::to_string(frame.line) + " " + std::to_string(turns.count());
}

// The same where all goes at the end.
std::string LoopOf(const std::string& text) {
  std::string freed = text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find(' '));
    const bool is_kept = name.starts_with('+') && text.find("-" + name.substr(1)) == text.npos;
    if (is_kept) freed += "-" + name.substr(1) + "\n";
  }
  return LoopThatKeeps(freed);
}

// What grows: "100 x 3 in 3 turns, …".
std::string GrowthOf(const std::string& text) {
  const RunStory story = TellStory(ParseSnapshotText(text));
  std::string said;
  for (const LineGroup& group : story.growth) {
    said += said.empty() ? "" : ", ";
    said += std::to_string(group.bytes) + " by " + std::to_string(group.count) + " in " +
            std::to_string(group.growing_turns) + " turns";
  }
  return said;
}

// Turns of a loop that frees what it makes.
constexpr char kTurn[] = R"(
+x# 100 train.py:5:main
+y# 200 net.py:2:forward torch/nn/modules/module.py:9:_call_impl train.py:6:main
-y#
-x#
)";

}  // namespace

TEST_CASE("a loop is where lines come back") {
  CHECK(LoopOf(Repeated(4, kTurn)) == "train.py:5 4");
  CHECK(LoopOf("+w 9 train.py:2:main\n" + Repeated(3, kTurn)) == "train.py:5 3");
  // Two turns may be anything.
  CHECK(LoopOf(Repeated(2, kTurn)) == "");
  CHECK(LoopOf("") == "");
}

TEST_CASE("of loops in loops the outermost counts, of equal depth the one with most turns") {
  const std::string inner = R"(
+a# 1 train.py:7:step train.py:5:main
+b# 1 train.py:8:step train.py:5:main
)";
  CHECK(LoopOf("+w 1 train.py:6:main\n" + Repeated(4, inner)) == "train.py:7 4");
  const std::string middle = R"(
+a# 1 train.py:4:main
+b# 1 train.py:7:step train.py:5:main
+c# 1 train.py:8:step train.py:5:main
+d# 1 train.py:7:step train.py:5:main
+e# 1 train.py:8:step train.py:5:main
+f# 1 train.py:7:step train.py:5:main
)";
  CHECK(LoopOf(Repeated(3, middle)) == "train.py:4 3");
  std::string epochs;
  for (const char* epoch : {"p", "q", "r"}) {
    epochs += std::string("+") + epoch + " 1 train.py:4:main\n";
    for (const char* batch : {"1", "2", "3"}) {
      const std::string name = std::string(epoch) + batch;
      epochs += "+a" + name + " 1 train.py:5:main\n+b" + name + " 1 train.py:6:main\n";
    }
  }
  CHECK(LoopOf(epochs) == "train.py:5 7");
}

TEST_CASE("loops over layers, and PyTorch's own, are no steps") {
  CHECK(LoopOf(Repeated(4, R"(
+a# 1 net.py:2:forward torch/nn/modules/module.py:9:_call_impl train.py:6:main
+b# 1 net.py:3:forward torch/nn/modules/module.py:9:_call_impl train.py:6:main
)")) == "");
  CHECK(LoopOf(Repeated(4, R"(
+a# 1 torch/optim/adam.py:2:_init_group train.py:6:main
+b# 1 torch/optim/adam.py:3:_init_group train.py:6:main
)")) == "");
}

// Four layers of a model, on the card from the beginning.
TEST_CASE("loops that free next to nothing build something, and are no steps") {
  const std::string build = Repeated(4, R"(
+w# 300 net.py:2:__init__ train.py:4:main
+b# 100 net.py:3:__init__ train.py:4:main
)");
  CHECK(LoopOf(build) == "net.py:2 4");
  CHECK(LoopThatKeeps(build) == "");
  CHECK(GrowthOf(build) == "");
  // A quarter of what the whole turns make is enough.
  CHECK(LoopThatKeeps(build + "-b1\n-b2\n") == "net.py:2 4");
  CHECK(LoopThatKeeps(build + "-b1\n") == "");
}

TEST_CASE("other threads do not cut a turn") {
  CHECK(LoopOf(Repeated(4, R"(
+x# 1 train.py:5:main
+x1# 1 train.py:6:main
+g# 1 engine
+x2# 1 train.py:7:main
+l# 1 loader.py:2:run
)")) == "train.py:5 4");
}

TEST_CASE("turns are counted from the first, nothing before it") {
  const Turns turns = {.loop = 0, .begins = {10, 20, 30}};
  CHECK(turns.TurnAt(9) == 0);
  CHECK(turns.TurnAt(10) == 1);
  CHECK(turns.TurnAt(29) == 2);
  CHECK(turns.TurnAt(1000) == 3);
}

TEST_CASE("what every turn leaves behind grows") {
  const std::string leak = std::string(kTurn) + "+leak# 70 train.py:7:main\n";
  CHECK(GrowthOf(Repeated(4, kTurn)) == "");
  CHECK(GrowthOf(Repeated(4, leak)) == "210 by 3 in 3 turns");
  // The last turn's may yet go.
  CHECK(GrowthOf(Repeated(3, leak)) == "140 by 2 in 2 turns");
  // What was there before the loop does not grow.
  CHECK(GrowthOf("+leak 70 train.py:7:main\n+l2 70 train.py:7:main\n" + Repeated(3, kTurn)) == "");
}

TEST_CASE("what the first turn makes for good does not grow, nor what a queue holds") {
  const std::string states = "+s1 70 train.py:7:main\n+s2 70 train.py:7:main\n";
  CHECK(GrowthOf(Repeated(1, kTurn) + states + Repeated(3, kTurn)) == "");
  std::string queue = Repeated(6, std::string(kTurn) + "+q# 70 train.py:7:main\n");
  queue += "-q0\n-q1\n-q2\n";
  CHECK(GrowthOf(queue) == "");
}

TEST_CASE("sizes and lines that differ grow on their own") {
  CHECK(GrowthOf(Repeated(4, std::string(kTurn) + R"(
+a# 10 train.py:7:main
+b# 20 train.py:7:main
+c# 30 net.py:4:forward train.py:8:main
+d# 1000 train.py:9:main
-d#
)")) == "90 by 6 in 3 turns, 90 by 3 in 3 turns");
}

TEST_CASE("the line of the loop that asks for most of what grows") {
  const RunStory story = TellStory(ParseSnapshotText(Repeated(4, std::string(kTurn) + R"(
+a# 10 train.py:7:main
+c# 30 net.py:4:forward train.py:8:main
+e# 5 net.py:5:forward train.py:8:main
)")));
  CHECK(story.growth_bytes == 3 * (10 + 30 + 5));
  CHECK(story.snapshot.frames[static_cast<size_t>(story.growth_line)].line == 8);
  CHECK(story.growth_line_bytes == 3 * (30 + 5));
}

TEST_CASE("allocations go together by lines of the user's") {
  const RunStory story = TellStory(ParseSnapshotText(R"(
+a 10 torch/optim/adam.py:1:_init_group train.py:9:main
+b 10 torch/optim/adam.py:2:_init_group train.py:9:main
+c 40 torch/optim/adam.py:2:_init_group train.py:9:main
+d 100 engine
+e 1
)"));
  REQUIRE(story.live.size() == 3);
  CHECK(story.live[0].bytes == 100);
  CHECK(story.live[1].bytes == 60);
  CHECK(story.live[1].count == 3);
  CHECK(story.live[1].sizes == std::vector<SizeCount>{{40, 1}, {10, 2}});
  CHECK(story.live[2].bytes == 1);
}

}  // namespace onnxfit::turns_test

// What a memory snapshot tells, as text, JSON and comma-separated values.
#include "estimator/report/run_story.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/snapshot_text.h"

namespace onnxfit::run_story_test {
namespace {

constexpr char kTurn[] = R"(
+x# 4096 train.py:5:main
+y# 8192 net.py:2:forward train.py:6:main
+leak# 700 /home/me/metrics.py:3:add train.py:7:main
-y#
-x#
)";

StoryAnswer AnswerOf(const std::string& text) {
  return {.path = "run.pickle", .story = TellStory(ParseSnapshotText(text))};
}

StoryAnswer LeakingAnswer() {
  return AnswerOf("reserve 2097152\n+w 100000 train.py:2:main\n" + Repeated(4, kTurn));
}

}  // namespace

TEST_CASE("what lives, by line, and what grows") {
  CHECK(ToText(LeakingAnswer()) == R"(peak: 112.4 KiB in tensors, 2.00 MiB reserved
run.pickle at its peak, in turn 4 of 4 of the loop at train.py:5 (main)
grows by 700 B a turn: 3 turns leave 2.05 KiB behind, all asked for in
train.py:7 (main)

in tensors                       count     bytes  grows
train.py:2 (main)                    1  97.7 KiB
net.py:2 (forward) < train.py:6      1  8.00 KiB
train.py:5 (main)                    1  4.00 KiB
metrics.py:3 (add) < train.py:7      4  2.73 KiB  in 3 of 4 turns

a list that every turn adds to keeps its tensors on the card, with the graph
that made them: add loss.item(), or out.detach().cpu()
)");
  CHECK(ToText(LeakingAnswer(), {.quiet = true}) ==
        "peak: 112.4 KiB in tensors, 2.00 MiB reserved\n");
}

TEST_CASE("growth that the first rows do not show has a list of its own") {
  const std::string text = ToText(LeakingAnswer(), {.rows = 2});
  CHECK(text.find(R"(
left behind, turn by turn        count     bytes  grows
metrics.py:3 (add) < train.py:7      3  2.05 KiB  in 3 of 4 turns

in tensors                       count     bytes  grows
train.py:2 (main)                    1  97.7 KiB
net.py:2 (forward) < train.py:6      1  8.00 KiB
and 2 more (-n 4 shows all)
)") != std::string::npos);
}

TEST_CASE("with -v who called whom, by whole paths") {
  CHECK(ToText(LeakingAnswer(), {.verbose = true})
            .find("  /home/me/metrics.py:3 in add\n    train.py:7 in main\n") != std::string::npos);
}

TEST_CASE("which moment it is about, without a loop") {
  CHECK(StorySentences(AnswerOf("+a 1 net.py:1:f\n-a\n"))[0] ==
        "run.pickle at its peak, event 1 of 2");
}

TEST_CASE("where the card was full, it says who asked") {
  const StoryAnswer answer = AnswerOf("+a 100 net.py:1:f\noom 5000 net.py:9:g\n");
  const StoryAnswer reserved = AnswerOf("reserve 1000\n+a 100 net.py:1:f\noom 5000 net.py:9:g\n");
  CHECK(StorySentences(reserved)[1] ==
        "900 B of what is reserved holds no tensor: rounding, and pieces too small");
  CHECK(HeadlineOf(answer) ==
        "OOM: 4.88 KiB asked by net.py:9 (g); 100 B in tensors, 0 B reserved");
  CHECK(ToJson(answer, {}).find("\"asked_by\": [\n      {\n        \"file\": \"net.py\",") !=
        std::string::npos);
}

TEST_CASE("what keeps it from saying more") {
  const auto note_of = [](const StoryAnswer& answer) {
    const std::vector<std::string> notes = StoryNotes(answer);
    return notes.empty() ? std::string() : notes[0].substr(0, 40);
  };
  constexpr char kHint[] = "a list that every turn adds to keeps its";
  CHECK(note_of(LeakingAnswer()) == kHint);
  CHECK(note_of(AnswerOf("")) == "this snapshot has no history, so that no");
  CHECK(note_of(AnswerOf("+a 1 net.py:1:f\n")) == "no loop of three turns is in the history");
  StoryAnswer answer = LeakingAnswer();
  answer.leftovers = {.predicted_bytes = 1000, .missing_bytes = 100};
  CHECK(note_of(answer) == kHint);
  answer.leftovers->missing_bytes = 101;
  CHECK(note_of(answer) == "101 B of what is predicted is not in the");
  answer = LeakingAnswer();
  answer.story.run.contradictions = 2;
  CHECK(note_of(answer) == "2 events contradict others, and were pas");
  answer = LeakingAnswer();
  answer.story.snapshot.device = 1;
  answer.story.snapshot.devices = 2;
  CHECK(note_of(answer) == "of 2 cards this is number 1, which holds");
}

TEST_CASE("who asked, where no line says so") {
  const RunStory story = TellStory(ParseSnapshotText("+a 1 engine\n+b 1\n+c 1 net.py:1:f\n"));
  CHECK(AskerText(story, StackId{1}) == "backward");
  CHECK(AskerText(story, StackId{0}) == "no line of Python (backward?)");
  CHECK(AskerText(TellStory(ParseSnapshotText("+a 1\n")), StackId{0}) == "not recorded");
  const RunStory late = TellStory(ParseSnapshotText("+a 1\nhistory\n+c 1 net.py:1:f\n"));
  CHECK(AskerText(late, late.live[0]) == "before the history");
}

TEST_CASE("JSON has exact bytes, each size, and all frames") {
  const std::string json = ToJson(LeakingAnswer(), {.version = "1"});
  CHECK(json.find("\"growth_bytes\": 2100,\n  \"growth_line\": {\n    \"file\": \"train.py\",\n"
                  "    \"line\": 7,\n    \"function\": \"main\",\n    \"bytes\": 2100\n  },") !=
        std::string::npos);
  CHECK(json.find(R"(    {
      "bytes": 2800,
      "count": 4,
      "sizes": [
        {
          "bytes": 700,
          "count": 4
        }
      ],
      "growing_bytes": 2100,
      "growing_turns": 3,
      "frames": [
        {
          "file": "/home/me/metrics.py",
          "line": 3,
          "function": "add"
        },)") != std::string::npos);
  CHECK(json.find("\"loop\": {\n      \"file\": \"train.py\",\n      \"line\": 5,\n"
                  "      \"function\": \"main\",\n      \"turns\": 4\n    },") !=
        std::string::npos);
}

TEST_CASE("comma-separated values") {
  CHECK(ToCsv(LeakingAnswer()) == R"(list,where,count,bytes,growing_bytes,growing_turns,kind
growth,metrics.py:3 (add) < train.py:7,3,2100,2100,3,
live,train.py:2 (main),1,100000,0,0,
live,net.py:2 (forward) < train.py:6,1,8192,0,0,
live,train.py:5 (main),1,4096,0,0,
live,metrics.py:3 (add) < train.py:7,4,2800,2100,3,
)");
}

}  // namespace onnxfit::run_story_test

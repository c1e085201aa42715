#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/report/diff.h"
#include "estimator/report/layout.h"
#include "tests/lines.h"
#include "tests/sample_diff.h"

namespace onnxfit::diff_text_test {
namespace {

TEST_CASE("what grew") {
  CHECK(ToText(GrownDiff()) == R"(grew by 400.0 MiB (+25.0%), from 1.56 GiB to 1.95 GiB
most at layer1.*/relu (3): +390.0 MiB
models/lenet.onnx → models/lenet2.onnx

by kind          before      after      change
parameters     60.0 MiB   80.0 MiB   +20.0 MiB
activations  1000.0 MiB   1.35 GiB  +380.0 MiB
cached         40.0 MiB   40.0 MiB        same
context       500.0 MiB  500.0 MiB        same
device         1.56 GiB   1.95 GiB  +400.0 MiB

by node                               change
layer1.*/relu (3)        grew     +390.0 MiB
fc.weight -> fc2.weight  renamed   +20.0 MiB
pool                     removed   -10.0 MiB
/layer1/gelu             added     +5.00 MiB

the peak moved from forward to backward at /layer1/conv1/Conv; what is added or
removed may be alive at one of them alone
batch was 8 and is 16
)");
}

TEST_CASE("what shrank, and what did not change") {
  CHECK(ToText(ShrunkDiff()) == R"(shrank by 400.0 MiB (-20.0%), from 1.95 GiB to 1.56 GiB
most at fc: -400.0 MiB
models/lenet.onnx

by kind        before     after      change
activations  1.95 GiB  1.56 GiB  -400.0 MiB
device       1.95 GiB  1.56 GiB  -400.0 MiB

by node              change
fc       shrank  -400.0 MiB
)");
  CHECK(ToText(SameDiff()) == R"(takes 1.56 GiB, as before
models/lenet.onnx

by kind        before     after  change
activations  1.56 GiB  1.56 GiB    same
device       1.56 GiB  1.56 GiB    same
)");
}

TEST_CASE("verdicts and what is allowed") {
  const std::vector<std::string> lines = LinesOf(ToText(JudgedDiff()));
  CHECK(lines[0] == "FAIL: grew by 400.0 MiB (+25.0%), from 1.56 GiB to 1.95 GiB, 2% allowed");
  CHECK(lines[2] == "OOM on t4: 1.95 GiB of 1.76 GiB, 111.1%");
  CHECK(lines[3] == "  was FITS before");
  CHECK(lines[4] == "FITS on t4: 1.56 GiB of 1.76 GiB, 88.9%");
  CHECK(lines[6].empty());
}

TEST_CASE("the first line alone") {
  CHECK(ToText(GrownDiff(), {.quiet = true}) ==
        "grew by 400.0 MiB (+25.0%), from 1.56 GiB to 1.95 GiB\n");
  CHECK(ToText(AwkwardDiff(), {.quiet = true}).starts_with("FAIL: grew by 4.00 EiB (>"));
  for (const Diff& diff : {GrownDiff(), ShrunkDiff(), SameDiff(), AwkwardDiff(), JudgedDiff()}) {
    const std::string text = ToText(diff, {.quiet = true});
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  }
}

TEST_CASE("rows") {
  const std::string two = ToText(GrownDiff(), {.rows = 2});
  CHECK(two.find("\nfc.weight -> fc2.weight") != std::string::npos);
  CHECK(two.find("\npool") == std::string::npos);
  CHECK(two.find("\nand 2 more (-n 4 shows all)\n") != std::string::npos);
  CHECK(ToText(GrownDiff(), {.rows = 4}).find(" more ") == std::string::npos);
}

TEST_CASE("where no node went the way of the whole its kind is named") {
  Diff diff = ShrunkDiff();
  std::swap(diff.comparison.before.device_bytes, diff.comparison.after.device_bytes);
  diff.comparison.kinds = {{"rounding", 0, 100 * kMiB},
                           {"cached", 0, 700 * kMiB},
                           {"activations", 500 * kMiB, 100 * kMiB}};
  CHECK(LinesOf(ToText(diff))[0].starts_with("grew by 400.0 MiB"));
  CHECK(LinesOf(ToText(diff))[1] == "most in cached memory: +700.0 MiB");
  diff.comparison.kinds = {{"activations", 500 * kMiB, 100 * kMiB}};
  CHECK(LinesOf(ToText(diff))[1] == "models/lenet.onnx");
}

TEST_CASE("a side without places, and one of another version") {
  Diff diff = SameDiff();
  diff.comparison.has_places = false;
  diff.comparison.before.version = "0.0.9\033[2J";
  const std::string text = ToText(diff);
  CHECK(text.find("\nby node: one side is a report that does not have them\n") !=
        std::string::npos);
  CHECK(text.find("\nthe two are answers of onnxfit 0.0.9?[2J and 0.1.0\n") != std::string::npos);
}

TEST_CASE("what a change is called") {
  struct Row {
    int64_t before;
    int64_t after;
    const char* text;
  };
  const Row rows[] = {{0, 0, "takes 0 B, as before"},
                      {0, kMiB, "grew by 1.00 MiB, from 0 B to 1.00 MiB"},
                      {kMiB, 0, "shrank by 1.00 MiB (-100.0%), from 1.00 MiB to 0 B"},
                      {kGiB, kGiB + 1, "grew by 1 B (+0.0%), from 1.00 GiB to 1.00 GiB"}};
  for (const Row& row : rows) CHECK(ChangeText(ComparisonOf(row.before, row.after)) == row.text);
  CHECK(MovedText(ComparisonOf(1, 2)).empty());
  Comparison moved = GrownDiff().comparison;
  moved.places.clear();
  CHECK(MovedText(moved) == "the peak moved from forward to backward at /layer1/conv1/Conv");
}

TEST_CASE("no line is wider than 80 columns, nor any letter beyond ASCII") {
  for (const Diff& diff : {GrownDiff(), ShrunkDiff(), SameDiff(), AwkwardDiff(), JudgedDiff()}) {
    for (const bool ascii : {false, true}) {
      const std::string text = ToText(diff, {.ascii = ascii});
      CheckPage(text);
      if (ascii) CHECK(IsAscii(text));
    }
  }
}

TEST_CASE("what counts most is in the first three lines") {
  for (const Diff& diff : {GrownDiff(), ShrunkDiff(), JudgedDiff()}) {
    const std::vector<std::string> lines = LinesOf(ToText(diff));
    const std::string head = lines[0] + lines[1] + lines[2];
    CHECK(head.find(diff.comparison.places[0].name) != std::string::npos);
  }
}

TEST_CASE("colour is around words, and takes no column") {
  std::string text = ToText(JudgedDiff(), {.color = true});
  CHECK(text.starts_with("\033[31mFAIL: \033[0mgrew by"));
  CHECK(text.find("\033[31m+390.0 MiB\033[0m") != std::string::npos);
  CHECK(text.find("\033[32m-10.0 MiB\033[0m") != std::string::npos);
  CHECK(Uncoloured(text) == ToText(JudgedDiff()));
}

}  // namespace
}  // namespace onnxfit::diff_text_test

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/report/check.h"
#include "estimator/report/check_parts.h"
#include "estimator/report/diff.h"
#include "tests/lines.h"
#include "tests/sample_check.h"

namespace onnxfit::check_text_test {
namespace {

CheckAnswer Only(const CheckRow& row) {
  CheckAnswer answer = EmptyCheck();
  answer.rows = {row};
  return answer;
}

TEST_CASE("a page of all that a check can find") {
  CheckAnswer answer = SampleCheck();
  answer.rows.erase(answer.rows.begin() + 2);  // the one of awkward names
  CHECK(ToText(answer) == R"(ERROR: 1 error, 2 fail, 1 warn, 1 new, 1 gone, 1 off, 1 pass
ERROR broken: models/broken.onnx: cannot be read: no such file
        (try: git lfs pull)
FAIL  zoo[models/lenet.onnx, bf16]: grew by 400.0 MiB (+25.0%) at layer1.*/relu
      (3), 64.0 MiB allowed
        batch was 8 and is 16
        +390.0 MiB layer1.*/relu (3)
        +20.0 MiB fc.weight -> fc2.weight
        -10.0 MiB elsewhere
        Ask #gpu: 100% sure?
        Then say so.
FAIL  bert: TIGHT on t4: it does not fit 4 MiB less
WARN  gpt2: 12.0 GiB is 1.00 GiB over the budget of 80% of t4
NEW   vit: 900.0 MiB, nothing to compare with
GONE  lenet: in the lock, and no check has it
OFF   later: its level is off
PASS  resnet50: 1.56 GiB, as before
note: ::The lock is of onnxfit 0.0.9 {0}. Write it anew.
If this is meant, run `onnxfit check --update` and commit the lock.
)");
}

TEST_CASE("pages of one run") {
  CheckRow shrunk = PassingRow("a");
  shrunk.comparison = ComparisonOf(2000 * kMiB, 1600 * kMiB);
  CheckRow alone = PassingRow("a");
  alone.comparison.reset();
  CheckRow oom = RowOf("a", CheckStatus::kFail, 3 * kGiB);
  oom.budgets = {CardResult("gtx1050", Verdict::kOom, false, 3 * kGiB, 2 * kGiB)};
  struct Row {
    CheckRow row;
    const char* text;
  };
  const Row rows[] = {
      {PassingRow("a"), "PASS: 1 pass\nPASS  a: 1.56 GiB, as before\n"},
      {shrunk, "PASS: 1 pass\nPASS  a: 1.56 GiB, shrank by 400.0 MiB (-20.0%)\n"},
      {alone, "PASS: 1 pass\nPASS  a: 1.56 GiB\n"},
      {RowOf("a", CheckStatus::kNew, kGiB),
       "PASS: 1 new, nothing compared\nNEW   a: 1.00 GiB, nothing to compare with\n"
       "Run `onnxfit check --update` and commit the lock.\n"},
      {oom,
       "FAIL: 1 fail\nFAIL  a: OOM on gtx1050\n"
       "Run `onnxfit estimate` with the same settings and this card: it lists changes\n"
       "that fit.\n"},
  };
  for (const Row& row : rows) CHECK(ToText(Only(row.row)) == std::string(row.text));
  CHECK(ToText(EmptyCheck()) == "PASS: no checks\n");
}

TEST_CASE("every row begins with its word, the worst first") {
  const std::vector<std::string> lines = LinesOf(ToText(SampleCheck()));
  std::string words;
  for (const std::string& line : lines) {
    const std::string word = line.substr(0, line.find(' '));
    const bool is_row =
        !word.empty() && word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
    if (is_row) words += word + " ";
  }
  CHECK(words == "ERROR FAIL FAIL FAIL WARN NEW GONE OFF PASS ");
}

TEST_CASE("no line is wider than 80 columns, nor any letter beyond ASCII") {
  for (const CheckAnswer& answer : {SampleCheck(), EmptyCheck(), ManyChecks(3, 120)}) {
    for (const bool ascii : {false, true}) {
      const std::string text = ToText(answer, {.ascii = ascii});
      CheckPage(text);
      if (ascii) CHECK(IsAscii(text));
      const std::string quiet = ToText(answer, {.ascii = ascii, .quiet = true});
      CHECK(LinesOf(quiet).size() == 1);
      CHECK(text.starts_with(quiet));
    }
  }
}

TEST_CASE("what grew most is in the first three lines") {
  const std::vector<std::string> lines = LinesOf(ToText(Only(GrownRow())));
  CHECK((lines[0] + lines[1] + lines[2]).find("layer1.*/relu") != std::string::npos);
}

TEST_CASE("what it was compared with") {
  CheckAnswer answer = Only(PassingRow("a"));
  answer.against = "git:\033[2J" + std::string(90, 'm');
  CheckPage(ToText(answer));
  const std::string line = "PASS: 1 pass, compared with git:?[2J" + std::string(90, 'm') + "\n";
  CHECK(ToText(answer, {.quiet = true}) == line);
}

// Its budgets were checked; that it did not grow nobody knows.
TEST_CASE("what could not be compared says so") {
  CheckRow row = PassingRow("a");
  row.status = CheckStatus::kNew;
  row.comparison.reset();
  row.not_compared = "git:none cannot be read";
  CheckAnswer answer = Only(row);
  answer.against = "git:none";
  CHECK(ToText(answer) ==
        "PASS: 1 new, not compared with git:none\n"
        "NEW   a: 1.56 GiB, not compared: git:none cannot be read\n");
  row.status = CheckStatus::kFail;
  row.budgets = {{.text = "1GiB", .holds = false, .used_bytes = 1600 * kMiB, .limit_bytes = kGiB}};
  CHECK(Details(row) == std::vector<std::string>{"1.56 GiB is 576.0 MiB over the budget of 1GiB",
                                                 "not compared: git:none cannot be read"});
}

TEST_CASE("what grew that no node has") {
  CheckRow row = GrownRow();
  row.comparison->places.clear();
  CHECK(Headline(row) == "grew by 400.0 MiB (+25.0%) in activations, 64.0 MiB allowed");
  row.comparison->kinds = {{"cached", 0, 2}, {"optimizer_state", 1, 2}};
  CHECK(Headline(row) == "grew by 400.0 MiB (+25.0%) in cached memory, 64.0 MiB allowed");
  CHECK(Details(row)[2] == "+2 B cached");
  row.comparison->kinds.clear();
  CHECK(Headline(row) == "grew by 400.0 MiB (+25.0%), 64.0 MiB allowed");
}

TEST_CASE("rows of what grew") {
  CHECK(Details(GrownRow(), 1) ==
        std::vector<std::string>{
            "grew by 400.0 MiB (+25.0%) at layer1.*/relu (3), 64.0 MiB allowed",
            "batch was 8 and is 16", "+390.0 MiB layer1.*/relu (3)", "+20.0 MiB 1 more that grew",
            "-10.0 MiB elsewhere", "Ask #gpu: 100% sure?\nThen say so."});
  CHECK(ToText(Only(GrownRow()), {.rows = 0}).find("        +410.0 MiB 2 more that grew\n") !=
        std::string::npos);
}

TEST_CASE("colour is around words, and takes no column") {
  const std::string text = ToText(SampleCheck(), {.color = true});
  CHECK(text.find("\n\033[31mFAIL\033[0m  bert") != std::string::npos);
  CHECK(text.find("\n\033[33mWARN\033[0m  gpt2") != std::string::npos);
  CHECK(text.find("\n\033[32mPASS\033[0m  resnet50") != std::string::npos);
  CHECK(text.find("\nOFF   later") != std::string::npos);
  CHECK(Uncoloured(text) == ToText(SampleCheck()));
}

TEST_CASE("numbers with a sign") {
  CHECK(SignedBytes(0) == "+0 B");
  CHECK(SignedBytes(12 * kKiB) == "+12.0 KiB");
  CHECK(SignedBytes(-12 * kKiB) == "-12.0 KiB");
  CHECK(SignedShare(1, 0).empty());
  CHECK(SignedShare(-1, 4) == "-25.0%");
  CHECK(SettingText({"batch", "8", ""}) == "batch was 8 and is nothing");
}

TEST_CASE("a check for programs") {
  CheckAnswer answer = EmptyCheck();
  CHECK(ToJson(answer, {.version = "0.1.0"}) == R"({
  "schema": 1,
  "version": "0.1.0",
  "config": "onnxfit.toml",
  "against": "the lock",
  "updated": false,
  "status": "pass",
  "counts": {
    "pass": 0,
    "off": 0,
    "gone": 0,
    "new": 0,
    "warn": 0,
    "fail": 0,
    "error": 0
  },
  "checks": [],
  "notes": []
}
)");
  answer.rows = {StrictRow(), QuietRow("later", CheckStatus::kOff), BrokenRow()};
  const std::string json = ToJson(answer, {.version = "0.1.0"});
  CHECK(json.find("\"status\": \"error\",\n  \"counts\"") != std::string::npos);
  CHECK(json.find(R"("budgets": [
        {
          "budget": "t4",
          "holds": false,
          "used_bytes": 15032385536,
          "limit_bytes": 16106127360,
          "verdict": "tight",
          "reasons": [
            "it does not fit 4 MiB less"
          ]
        }
      ])") != std::string::npos);
  CHECK(json.find(R"({
      "name": "later",
      "model": "models/lenet.onnx",
      "line": 12,
      "status": "off",
      "text": "its level is off"
    })") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::check_text_test

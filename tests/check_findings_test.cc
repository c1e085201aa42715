// What the formats of a check that list problems share.
#include <doctest/doctest.h>

#include "estimator/report/check_parts.h"
#include "tests/sample_check.h"

namespace onnxfit::check_findings_test {
namespace {

TEST_CASE("a finding is what the headline says") {
  struct Row {
    CheckRow row;
    const char* rule;
    const char* headline;
  };
  const Row rows[] = {
      {BrokenRow(), "no-answer",
       "models/broken.onnx: cannot be read: no such file\n(try: git lfs pull)"},
      {StrictRow(), "tight-fit", "TIGHT on t4: it does not fit 4 MiB less"},
      {WarningRow(), "over-budget", "12.0 GiB is 1.00 GiB over the budget of 80% of t4"},
      {ManyChecks(0, 1).rows[0], "over-budget", "2.00 GiB is 1.00 GiB over the budget of 1GiB"},
      {MissedRow(), "not-compared", "not compared: the lock does not have it"},
      {GrownRow(), "memory-grew",
       "grew by 400.0 MiB (+25.0%) at layer1.*/relu (3), 64.0 MiB allowed"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.rule);
    CHECK(RuleOf(row.row).id == row.rule);
    CHECK(Headline(row.row) == row.headline);
  }
  CHECK(RuleOf(AwkwardRow()).id == "out-of-memory");
  CHECK(Headline(AwkwardRow()).starts_with("OOM on gtx1050, fails in step 1, backward, at "));
}

TEST_CASE("advice is about the lock where the lock is what was compared with") {
  struct Row {
    CheckRow row;
    const char* lock;
    const char* update;
    const char* other;
  };
  const Row rows[] = {
      {GrownRow(), "If this is meant, run `onnxfit check --update` and commit the lock.",
       "If this is meant, commit the lock.",
       "Undo what grew, or, where this is meant, let the check grow by that much."},
      {QuietRow("a", CheckStatus::kNew), "Run `onnxfit check --update` and commit the lock.", "",
       ""},
      {QuietRow("a", CheckStatus::kGone), "Run `onnxfit check --update` and commit the lock.", "",
       ""},
      {QuietRow("a", CheckStatus::kOff), "", "", ""},
      {MissedRow(), "Run `onnxfit check --update` and commit the lock.",
       "Run `onnxfit check --update` and commit the lock.",
       "Compare with something that has the check."},
      {PassingRow("a"), "", "", ""},
      {StrictRow(), "Take less memory, or let the check be less strict.",
       "Take less memory, or let the check be less strict.",
       "Take less memory, or let the check be less strict."},
  };
  CheckAnswer lock = EmptyCheck();
  CheckAnswer update = EmptyCheck();
  update.is_update = true;
  CheckAnswer other = EmptyCheck();
  other.against = "main";
  for (const Row& row : rows) {
    CAPTURE(row.row.name);
    CHECK(AdviceFor(lock, row.row) == row.lock);
    CHECK(AdviceFor(update, row.row) == row.update);
    CHECK(AdviceFor(other, row.row) == row.other);
  }
}

TEST_CASE("a fingerprint is of a name and a rule, not of numbers") {
  const CheckRow row = GrownRow();
  CheckRow later = row;
  later.line = 99;
  later.status = CheckStatus::kWarn;
  later.comparison = ComparisonOf(1, 2);
  later.now = SnapshotOf(2);
  CHECK(FingerprintOf(later) == FingerprintOf(row));

  CheckRow renamed = row;
  renamed.name = "other";
  CHECK(FingerprintOf(renamed) != FingerprintOf(row));
  CheckRow over = row;
  over.grew_too_much = false;
  over.budgets = {SizeResult("1GiB", 2 * kGiB, kGiB)};
  CHECK(FingerprintOf(over) != FingerprintOf(row));
}

TEST_CASE("lines have no line ends and no control characters") {
  CHECK(PlainLine("a\nb\tc\r\n") == "a b c");
  CHECK(PlainLine("\033[31m\xFF") == "?[31m\xEF\xBF\xBD");
  CHECK(PlainLine("") == "");
  CheckRow row = BrokenRow();
  row.error = "one\n\ntwo\r\nthree";
  row.message = "ask\n";
  CHECK(PlainDetails(row) == std::vector<std::string>{"one", "two", "three", "ask"});
}

TEST_CASE("a row is of the config, but for trouble with the lock; paths have no detours") {
  struct Row {
    const char* config;
    const char* path;
  };
  const Row rows[] = {{"onnxfit.toml", "onnxfit.toml"},
                      {"./onnxfit.toml", "onnxfit.toml"},
                      {"ci/../a/./b.toml", "a/b.toml"},
                      {"../b.toml", "../b.toml"},
                      {"/ci/b.toml", "/ci/b.toml"}};
  for (const Row& row : rows) {
    CheckAnswer answer;
    answer.config = row.config;
    CHECK(FileOf(answer, PassingRow("a")) == row.path);
    CheckRow lock = PassingRow("a");
    lock.model = "ci/../onnxfit.lock.json";
    CHECK(FileOf(answer, lock) == row.path);
    lock.line = 0;
    CHECK(FileOf(answer, lock) == "onnxfit.lock.json");
  }
}

}  // namespace
}  // namespace onnxfit::check_findings_test

#include "estimator/compare/check.h"

#include <doctest/doctest.h>

#include "estimator/base/bytes.h"

namespace onnxfit::check_test {
namespace {

constexpr int64_t kOld = 1000 * kMiB;

Estimate EstimateOf(int64_t device_bytes) {
  Estimate estimate;
  estimate.device_bytes = device_bytes;
  estimate.warnings = {{"OF102", "doubt"}};
  return estimate;
}

Snapshot SnapshotOf(int64_t device_bytes) {
  Snapshot snapshot;
  snapshot.model = "a.onnx";
  snapshot.device_bytes = device_bytes;
  return snapshot;
}

Check CheckOf(const Allowance& allowance, Level level, const std::vector<Budget>& budgets) {
  Check check;
  check.name = "a";
  check.model = "a.onnx";
  check.budgets = budgets;
  check.max_increase = allowance;
  check.level = level;
  check.message = "ask";
  check.line = 7;
  return check;
}

Budget SizeOf(int64_t bytes) { return {.text = "size", .bytes = bytes}; }

CheckRow Judged(const Check& check, int64_t device_bytes, const Baseline& baseline) {
  return JudgeCheck(check, EstimateOf(device_bytes), SnapshotOf(device_bytes), baseline);
}

const Baseline kNoLock = {.compares = false};
const Baseline kNotThere = {};
const Baseline kMissed = {.why_missing = "the lock does not have it"};
const Baseline kMissedUngated = {.gates = false, .why_missing = "the lock does not have it"};
const Baseline kThere = {.snapshot = SnapshotOf(kOld)};

TEST_CASE("what a run may take") {
  const Allowance none;
  const Allowance bytes = {.text = "64MiB", .bytes = 64 * kMiB};
  const Allowance share = {.text = "2%", .share = 0.02};
  const Allowance both = {.text = "64MiB or 2%", .bytes = 64 * kMiB, .share = 0.02};
  struct Row {
    const char* says;
    int64_t device_bytes;
    Allowance allowance;
    Level level;
    std::vector<Budget> budgets;
    Baseline baseline;
    CheckStatus status;
  };
  using enum CheckStatus;
  const Row rows[] = {
      {"as before", kOld, none, Level::kError, {}, kThere, kPass},
      {"less", kOld - 1, none, Level::kError, {}, kThere, kPass},
      {"a byte more", kOld + 1, none, Level::kError, {}, kThere, kFail},
      {"a byte more, warned", kOld + 1, none, Level::kWarn, {}, kThere, kWarn},
      {"all that is allowed", kOld + 64 * kMiB, bytes, Level::kError, {}, kThere, kPass},
      {"and a byte", kOld + 64 * kMiB + 1, bytes, Level::kError, {}, kThere, kFail},
      {"the share", kOld + 20 * kMiB, share, Level::kError, {}, kThere, kPass},
      {"and a byte", kOld + 20 * kMiB + 1, share, Level::kError, {}, kThere, kFail},
      {"the larger of two", kOld + 64 * kMiB, both, Level::kError, {}, kThere, kPass},
      {"nothing compares", 9 * kOld, none, Level::kError, {}, kNoLock, kPass},
      {"new", 9 * kOld, none, Level::kError, {}, kNotThere, kNew},
      {"new, a warning's", 9 * kOld, none, Level::kWarn, {}, kNotThere, kNew},
      {"new, and has to be there", kOld, none, Level::kError, {}, kMissed, kFail},
      {"the same, a warning's", kOld, none, Level::kWarn, {}, kMissed, kWarn},
      {"the same in an update", kOld, none, Level::kError, {}, kMissedUngated, kNew},
      {"the budget's size", kOld, none, Level::kError, {SizeOf(kOld)}, kThere, kPass},
      {"and a byte", kOld, none, Level::kError, {SizeOf(kOld - 1)}, kThere, kFail},
      {"warned", kOld, none, Level::kWarn, {SizeOf(kOld - 1)}, kThere, kWarn},
      {"one of two", kOld, none, Level::kError, {SizeOf(kOld), SizeOf(1)}, kThere, kFail},
      {"without a lock", kOld, none, Level::kError, {SizeOf(1)}, kNoLock, kFail},
      {"new and over it", kOld, none, Level::kError, {SizeOf(1)}, kNotThere, kFail},
      {"grew and holds", kOld + 1, none, Level::kError, {SizeOf(2 * kOld)}, kThere, kFail},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    CAPTURE(row.device_bytes);
    const CheckRow judged =
        Judged(CheckOf(row.allowance, row.level, row.budgets), row.device_bytes, row.baseline);
    CHECK(ToString(judged.status) == ToString(row.status));
    CHECK(judged.comparison.has_value() == row.baseline.snapshot.has_value());
  }
}

TEST_CASE("a row has what the report needs") {
  const CheckRow row =
      Judged(CheckOf({.text = "5MiB", .bytes = 5 * kMiB}, Level::kError, {SizeOf(kOld)}),
             kOld + 6 * kMiB, kThere);
  CHECK(row.name == "a");
  CHECK(row.model == "a.onnx");
  CHECK(row.line == 7);
  CHECK(row.message == "ask");
  CHECK(row.error.empty());
  REQUIRE(row.budgets.size() == 1);
  CHECK(row.budgets[0].text == "size");
  CHECK(row.budgets[0].used_bytes == kOld + 6 * kMiB);
  CHECK(row.budgets[0].limit_bytes == kOld);
  CHECK(row.now == SnapshotOf(kOld + 6 * kMiB));
  CHECK(row.comparison->increase() == 6 * kMiB);
  CHECK(row.max_increase.text == "5MiB");
  CHECK(row.allowed_bytes == 5 * kMiB);
  CHECK(row.grew_too_much);
  CHECK(row.warnings == Warnings{{"OF102", "doubt"}});
}

TEST_CASE("a budget of a card") {
  struct Row {
    const char* says;
    Verdict verdict;
    int64_t used_bytes;
    double share;
    bool is_strict;
    bool holds;
  };
  const Row rows[] = {
      {"fits", Verdict::kFits, 600, 1, false, true},
      {"fits, strict", Verdict::kFits, 600, 1, true, true},
      {"tight", Verdict::kTight, 990, 1, false, true},
      {"tight, strict", Verdict::kTight, 990, 1, true, false},
      {"oom", Verdict::kOom, 1100, 1, false, false},
      {"oom, though it asks for less", Verdict::kOom, 900, 1, false, false},
      {"the share", Verdict::kFits, 800, 0.8, false, true},
      {"and a byte", Verdict::kFits, 801, 0.8, false, false},
      {"tight, under the share", Verdict::kTight, 800, 0.8, false, true},
      {"tight, under the share, strict", Verdict::kTight, 800, 0.8, true, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.says);
    Check check = CheckOf({}, Level::kError,
                          {SizeOf(5000), {.text = "t4", .target = Target{}, .share = row.share}});
    check.is_strict = row.is_strict;
    Estimate estimate = EstimateOf(600);
    estimate.targets = {
        {.target = {},
         .judgement = {
             .verdict = row.verdict, .usable_bytes = 1000, .used_bytes = row.used_bytes}}};
    const CheckRow judged = JudgeCheck(check, estimate, SnapshotOf(600), kNoLock);
    REQUIRE(judged.budgets.size() == 2);
    CHECK_FALSE(judged.budgets[0].judgement);
    CHECK(judged.budgets[1].holds == row.holds);
    CHECK(judged.budgets[1].used_bytes == row.used_bytes);
    CHECK(judged.budgets[1].limit_bytes == (row.share == 1 ? 1000 : 800));
    CHECK(judged.budgets[1].judgement->verdict == row.verdict);
    CHECK((judged.status == CheckStatus::kPass) == row.holds);
  }
}

TEST_CASE("cards are in the order of the budgets that have one") {
  const Check check =
      CheckOf({}, Level::kError,
              {{.text = "a", .target = Target{}}, SizeOf(5000), {.text = "b", .target = Target{}}});
  Estimate estimate = EstimateOf(600);
  estimate.targets = {{.target = {}, .judgement = {.usable_bytes = 1, .used_bytes = 1}},
                      {.target = {}, .judgement = {.usable_bytes = 2, .used_bytes = 2}}};
  const CheckRow row = JudgeCheck(check, estimate, SnapshotOf(600), kNoLock);
  CHECK(row.budgets[0].limit_bytes == 1);
  CHECK(row.budgets[1].limit_bytes == 5000);
  CHECK(row.budgets[2].limit_bytes == 2);
}

TEST_CASE("rows without an answer") {
  const Check check = CheckOf({.text = "5MiB", .bytes = 5 * kMiB}, Level::kOff, {SizeOf(1)});
  const CheckRow off = UnansweredCheck(check, "");
  CHECK(off.status == CheckStatus::kOff);
  CHECK(off.line == 7);
  CHECK_FALSE(off.now);
  const CheckRow error = UnansweredCheck(check, "no such file");
  CHECK(error.status == CheckStatus::kError);
  CHECK(error.error == "no such file");
  CHECK(error.budgets.empty());
  const CheckRow gone = GoneCheck("b", SnapshotOf(5));
  CHECK(gone.status == CheckStatus::kGone);
  CHECK(gone.name == "b");
  CHECK(gone.model == "a.onnx");
  CHECK(gone.line == 0);
  CHECK(!gone.has_to_be_compared);
  CHECK(GoneCheck("b", SnapshotOf(5), Level::kOff).status == CheckStatus::kGone);
  CHECK(GoneCheck("b", SnapshotOf(5), Level::kWarn).status == CheckStatus::kWarn);
  const CheckRow fails = GoneCheck("b", SnapshotOf(5), Level::kError);
  CHECK(fails.status == CheckStatus::kFail);
  CHECK(fails.has_to_be_compared);
  CHECK(fails.not_compared == "it is in the lock, and no check has it");
}

TEST_CASE("the worst first, equals as the config has them") {
  using enum CheckStatus;
  CheckAnswer answer;
  int i = 0;
  for (const CheckStatus status : {kPass, kError, kNew, kFail, kWarn, kFail, kOff, kGone, kPass}) {
    answer.rows.push_back({.name = std::to_string(i++), .model = "", .status = status});
  }
  std::string order;
  for (const CheckRow* row : answer.worst_first()) order += row->name;
  CHECK(order == "135427608");
  CHECK(answer.counts() == std::array<size_t, kCheckStatuses>{2, 1, 1, 1, 1, 2, 1});
  CHECK(CheckAnswer{}.worst_first().empty());
}

}  // namespace
}  // namespace onnxfit::check_test

// Answers of a check made by hand, for the tests of its formats.
#pragma once

#include <string>

#include "estimator/base/bytes.h"
#include "estimator/compare/check.h"

namespace onnxfit {

// What no format may stumble over: markup of each of them, a line end, an escape sequence, a
// direction mark, bad UTF-8, a code point that XML forbids.
inline const std::string kAwkwardName =
    "q\"u'o<t>e & |p|, 100%: \xC3\xBC {0} [a](b) `c` \xFF\n::x\033[31m\xE2\x80\xAE\xEF\xBF\xBE";

inline Snapshot SnapshotOf(int64_t device_bytes) {
  Snapshot snapshot;
  snapshot.version = "0.1.0";
  snapshot.model = "models/lenet.onnx";
  snapshot.settings = {{"batch", "8"}, {"precision", "\"bf16\""}};
  snapshot.device_bytes = device_bytes;
  snapshot.kinds = {{"activations", device_bytes}};
  return snapshot;
}

inline Comparison ComparisonOf(int64_t before, int64_t after) {
  Comparison comparison;
  comparison.before = SnapshotOf(before);
  comparison.after = SnapshotOf(after);
  comparison.kinds = {{"activations", before, after}};
  return comparison;
}

inline CheckRow RowOf(const std::string& name, CheckStatus status, int64_t device_bytes) {
  CheckRow row;
  row.name = name;
  row.model = "models/lenet.onnx";
  row.line = 12;
  row.status = status;
  row.now = SnapshotOf(device_bytes);
  return row;
}

// A budget of a size.
inline BudgetResult SizeResult(const std::string& text, int64_t used, int64_t limit) {
  return {.text = text, .holds = used <= limit, .used_bytes = used, .limit_bytes = limit};
}

// A budget of a card.
inline BudgetResult CardResult(const std::string& text, Verdict verdict, bool holds, int64_t used,
                               int64_t limit) {
  BudgetResult result = {.text = text, .holds = holds, .used_bytes = used, .limit_bytes = limit};
  result.judgement = Judgement{.verdict = verdict, .usable_bytes = limit, .used_bytes = used};
  return result;
}

inline CheckRow PassingRow(const std::string& name) {
  CheckRow row = RowOf(name, CheckStatus::kPass, 1600 * kMiB);
  row.budgets = {SizeResult("16GiB", 1600 * kMiB, 16 * kGiB),
                 CardResult("t4", Verdict::kTight, true, 1600 * kMiB, 2000 * kMiB)};
  row.comparison = ComparisonOf(1600 * kMiB, 1600 * kMiB);
  return row;
}

// Grew by 400 MiB in three nodes and a parameter, shrank elsewhere.
inline CheckRow GrownRow() {
  CheckRow row = RowOf("zoo[models/lenet.onnx, bf16]", CheckStatus::kFail, 2000 * kMiB);
  row.line = 20;
  row.message = "Ask #gpu: 100% sure?\nThen say so.";
  row.grew_too_much = true;
  row.allowed_bytes = 64 * kMiB;
  Comparison comparison = ComparisonOf(1600 * kMiB, 2000 * kMiB);
  ChangedPlaces relus;
  relus.name = "layer1.*/relu";
  relus.op = "relu";
  relus.names = {"layer1.0/relu", "layer1.1/relu", "layer1.1/relu"};
  relus.old_bytes = 300 * kMiB;
  relus.new_bytes = 690 * kMiB;
  ChangedPlaces weight;
  weight.change = PlaceChange::kRenamed;
  weight.name = "fc2.weight";
  weight.old_name = "fc.weight";
  weight.names = {"fc2.weight"};
  weight.new_bytes = 20 * kMiB;
  ChangedPlaces pool;
  pool.change = PlaceChange::kRemoved;
  pool.name = "pool";
  pool.names = {"pool"};
  pool.old_bytes = 10 * kMiB;
  comparison.places = {relus, weight, pool};
  comparison.settings = {{"batch", "8", "16"}};
  row.comparison = comparison;
  return row;
}

// Does not fit a card, is over a size, and has all the names that are awkward.
inline CheckRow AwkwardRow() {
  CheckRow row = RowOf(kAwkwardName, CheckStatus::kFail, 3 * kGiB);
  row.model = kAwkwardName;
  row.message = kAwkwardName;
  row.budgets = {CardResult("gtx1050", Verdict::kOom, false, 3 * kGiB, 2 * kGiB),
                 SizeResult(kAwkwardName, 3 * kGiB, kGiB)};
  row.budgets[0].judgement->fails_at = Failure{.step = 1,
                                               .phase = Phase::kBackward,
                                               .node = kAwkwardName,
                                               .asked_bytes = 98 * kMiB,
                                               .short_bytes = 12 * kMiB,
                                               .tried_bytes = 98 * kMiB};
  return row;
}

inline CheckRow WarningRow() {
  CheckRow row = RowOf("gpt2", CheckStatus::kWarn, 12 * kGiB);
  row.budgets = {CardResult("80% of t4", Verdict::kFits, false, 12 * kGiB, 11 * kGiB)};
  row.comparison = ComparisonOf(13 * kGiB, 12 * kGiB);
  return row;
}

inline CheckRow StrictRow() {
  CheckRow row = RowOf("bert", CheckStatus::kFail, 14 * kGiB);
  row.budgets = {CardResult("t4", Verdict::kTight, false, 14 * kGiB, 15 * kGiB)};
  row.budgets[0].judgement->reasons = {"it does not fit 4 MiB less"};
  return row;
}

inline CheckRow BrokenRow() {
  CheckRow row = RowOf("broken", CheckStatus::kError, 0);
  row.now.reset();
  row.error = "models/broken.onnx: cannot be read: no such file\n(try: git lfs pull)";
  return row;
}

inline CheckRow QuietRow(const std::string& name, CheckStatus status) {
  CheckRow row = RowOf(name, status, 0);
  row.now.reset();
  if (status == CheckStatus::kGone) row.line = 0;
  return row;
}

// Has to be in the lock, and is not.
inline CheckRow MissedRow() {
  CheckRow row = RowOf("swin", CheckStatus::kFail, 700 * kMiB);
  row.not_compared = "the lock does not have it";
  row.has_to_be_compared = true;
  return row;
}

// A row of every status, every kind of finding but one.
inline CheckAnswer SampleCheck() {
  CheckAnswer answer;
  answer.config = "./ci/gate config.toml";
  answer.against = "the lock";
  answer.rows = {PassingRow("resnet50"),
                 GrownRow(),
                 AwkwardRow(),
                 WarningRow(),
                 StrictRow(),
                 RowOf("vit", CheckStatus::kNew, 900 * kMiB),
                 BrokenRow(),
                 QuietRow("later", CheckStatus::kOff),
                 QuietRow("lenet", CheckStatus::kGone)};
  answer.notes = {"::The lock is of onnxfit 0.0.9 {0}.\nWrite it anew."};
  return answer;
}

inline CheckAnswer EmptyCheck() {
  CheckAnswer answer;
  answer.config = "onnxfit.toml";
  answer.against = "the lock";
  return answer;
}

// `passing` that pass, then `failing` that are over a budget of a size.
inline CheckAnswer ManyChecks(size_t passing, size_t failing) {
  CheckAnswer answer = EmptyCheck();
  for (size_t i = 0; i < passing; ++i) answer.rows.push_back(PassingRow("p" + std::to_string(i)));
  for (size_t i = 0; i < failing; ++i) {
    CheckRow row = RowOf("f" + std::to_string(i), CheckStatus::kFail, 2 * kGiB);
    row.budgets = {SizeResult("1GiB", 2 * kGiB, kGiB)};
    answer.rows.push_back(row);
  }
  return answer;
}

}  // namespace onnxfit

#include "estimator/compare/check.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace onnxfit {
namespace {

int64_t ShareOf(int64_t bytes, double share) {
  return static_cast<int64_t>(std::floor(static_cast<double>(bytes) * share));
}

BudgetResult JudgeSize(const Budget& budget, const Estimate& estimate) {
  return {.text = budget.text,
          .holds = estimate.device_bytes <= *budget.bytes,
          .used_bytes = estimate.device_bytes,
          .limit_bytes = *budget.bytes};
}

BudgetResult JudgeCard(const Budget& budget, const Judgement& judgement, bool is_strict) {
  const int64_t limit = ShareOf(judgement.usable_bytes, budget.share);
  const bool runs =
      judgement.verdict == Verdict::kFits || (judgement.verdict == Verdict::kTight && !is_strict);
  return {.text = budget.text,
          .holds = runs && judgement.used_bytes <= limit,
          .used_bytes = judgement.used_bytes,
          .limit_bytes = limit,
          .judgement = judgement};
}

std::vector<BudgetResult> JudgeBudgets(const Check& check, const Estimate& estimate) {
  std::vector<BudgetResult> results;
  size_t target = 0;
  for (const Budget& budget : check.budgets) {
    results.push_back(budget.target
                          ? JudgeCard(budget, estimate.targets[target++].judgement, check.is_strict)
                          : JudgeSize(budget, estimate));
  }
  return results;
}

CheckRow RowOf(const Check& check) {
  return {.name = check.name,
          .model = check.model,
          .line = check.line,
          .message = check.message,
          .max_increase = check.max_increase};
}

CheckStatus StatusOf(const CheckRow& row, const Check& check, const Baseline& baseline) {
  const bool holds = std::all_of(row.budgets.begin(), row.budgets.end(),
                                 [](const BudgetResult& budget) { return budget.holds; });
  if (!holds || row.grew_too_much || row.has_to_be_compared) return FailureAt(check.level);
  const bool is_new = baseline.compares && !baseline.snapshot;
  return is_new ? CheckStatus::kNew : CheckStatus::kPass;
}

}  // namespace

std::string_view ToString(CheckStatus status) {
  constexpr std::string_view kWords[kCheckStatuses] = {"pass", "off",  "gone", "new",
                                                       "warn", "fail", "error"};
  return kWords[static_cast<size_t>(status)];
}

std::array<size_t, kCheckStatuses> CheckAnswer::counts() const {
  std::array<size_t, kCheckStatuses> counts = {};
  for (const CheckRow& row : rows) ++counts[static_cast<size_t>(row.status)];
  return counts;
}

std::vector<const CheckRow*> CheckAnswer::worst_first() const {
  std::vector<const CheckRow*> sorted;
  for (const CheckRow& row : rows) sorted.push_back(&row);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const CheckRow* a, const CheckRow* b) { return a->status > b->status; });
  return sorted;
}

CheckRow JudgeCheck(const Check& check, const Estimate& estimate, const Snapshot& now,
                    const Baseline& baseline) {
  CheckRow row = RowOf(check);
  row.now = now;
  row.warnings = estimate.warnings;
  row.budgets = JudgeBudgets(check, estimate);
  if (baseline.compares && baseline.snapshot) {
    row.comparison = Compare(*baseline.snapshot, now);
    row.allowed_bytes = check.max_increase.BytesOf(baseline.snapshot->device_bytes);
    row.grew_too_much = baseline.gates && row.comparison->increase() > row.allowed_bytes;
  }
  row.has_to_be_compared = baseline.gates && !baseline.why_missing.empty();
  row.not_compared = row.has_to_be_compared ? baseline.why_missing : baseline.why_none;
  row.status = StatusOf(row, check, baseline);
  return row;
}

CheckRow UnansweredCheck(const Check& check, const std::string& error) {
  CheckRow row = RowOf(check);
  row.error = error;
  row.status = error.empty() ? CheckStatus::kOff : CheckStatus::kError;
  return row;
}

CheckRow GoneCheck(const std::string& name, const Snapshot& before, std::optional<Level> fails) {
  CheckRow row = {.name = name, .model = before.model, .status = CheckStatus::kGone};
  if (!fails || *fails == Level::kOff) return row;
  row.status = FailureAt(*fails);
  row.not_compared = "it is in the lock, and no check has it";
  row.has_to_be_compared = true;
  return row;
}

CheckStatus FailureAt(Level level) {
  return level == Level::kWarn ? CheckStatus::kWarn : CheckStatus::kFail;
}

}  // namespace onnxfit

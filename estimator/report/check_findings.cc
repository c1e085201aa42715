#include "estimator/report/check_findings.h"

#include <algorithm>
#include <filesystem>

#include "estimator/base/digest.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

Finding FindingOf(const BudgetResult& budget) {
  if (!budget.judgement) return Finding::kOverBudget;
  if (budget.judgement->verdict == Verdict::kOom) return Finding::kOutOfMemory;
  return budget.used_bytes <= budget.limit_bytes ? Finding::kTightFit : Finding::kOverBudget;
}

void AddLines(std::string_view text, std::vector<std::string>& lines) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line = PlainLine(text.substr(0, end));
    if (!line.empty()) lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

Finding FindingOf(const CheckRow& row) {
  if (!row.error.empty()) return Finding::kNoAnswer;
  if (row.grew_too_much) return Finding::kMemoryGrew;
  const auto broken = std::find_if(row.budgets.begin(), row.budgets.end(),
                                   [](const BudgetResult& budget) { return !budget.holds; });
  return broken == row.budgets.end() ? Finding::kNoAnswer : FindingOf(*broken);
}

const FindingRule& RuleOf(const CheckRow& row) {
  return kFindingRules[static_cast<size_t>(FindingOf(row))];
}

std::string AdviceFor(const CheckAnswer& answer, const CheckRow& row) {
  const bool has_lock = answer.against == "the lock";
  if (row.status == CheckStatus::kNew || row.status == CheckStatus::kGone) {
    return has_lock && !answer.is_update ? "Run `onnxfit check --update` and commit the lock." : "";
  }
  const bool says_what = row.status == CheckStatus::kWarn && !row.error.empty();
  if (row.status < CheckStatus::kWarn || says_what) return "";
  if (FindingOf(row) == Finding::kMemoryGrew && has_lock) {
    return answer.is_update ? "If this is meant, commit the lock."
                            : "If this is meant, run `onnxfit check --update` and commit the lock.";
  }
  return std::string(RuleOf(row).advice);
}

std::string PlainLine(std::string_view text) {
  std::string line(text);
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return Clean(line, false);
}

std::vector<std::string> PlainDetails(const CheckRow& row, size_t most) {
  std::vector<std::string> lines;
  for (const std::string& detail : Details(row, most)) AddLines(detail, lines);
  return lines;
}

std::string FingerprintOf(const CheckRow& row) {
  return Digest(row.name + '\n' + std::string(RuleOf(row).id));
}

std::string FileOf(const CheckAnswer& answer, const CheckRow& row) {
  const bool is_lock = row.line == 0 && row.model.ends_with(".lock.json");
  const std::filesystem::path path(is_lock ? row.model : answer.config);
  return path.lexically_normal().generic_string();
}

}  // namespace onnxfit

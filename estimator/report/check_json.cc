#include "estimator/report/check_json.h"

#include "estimator/report/check_sentences.h"
#include "estimator/report/comparison_json.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/verdict_json.h"

namespace onnxfit {
namespace {

Json BudgetJson(const BudgetResult& budget) {
  Json object = {{"budget", budget.text},
                 {"holds", budget.holds},
                 {"used_bytes", budget.used_bytes},
                 {"limit_bytes", budget.limit_bytes}};
  if (!budget.judgement) return object;
  object["verdict"] = ToString(budget.judgement->verdict);
  if (!budget.judgement->reasons.empty()) object["reasons"] = budget.judgement->reasons;
  if (budget.judgement->fails_at) object["fails_at"] = FailureJson(*budget.judgement->fails_at);
  return object;
}

Json RowJson(const CheckRow& row) {
  Json object = {{"name", row.name}, {"model", row.model}};
  if (row.line > 0) object["line"] = row.line;
  object["status"] = ToString(row.status);
  object["text"] = Headline(row);
  PutIfKnown(object, "message", row.message);
  PutIfKnown(object, "error", row.error);
  PutIfKnown(object, "not_compared", row.not_compared);
  if (row.now) {
    object["device_bytes"] = row.now->device_bytes;
    object["budgets"] = Json::array();
    for (const BudgetResult& budget : row.budgets) object["budgets"].push_back(BudgetJson(budget));
    object["warnings"] = WarningsJson(row.warnings);
  }
  if (row.comparison) {
    object["max_increase"] = row.max_increase.text;
    object["allowed_bytes"] = row.allowed_bytes;
    object["grew_too_much"] = row.grew_too_much;
    object["comparison"] = ComparisonJson(*row.comparison);
  }
  return object;
}

}  // namespace

std::string ToJson(const CheckAnswer& answer, const JsonOptions& options) {
  Json report = {{"schema", 1},
                 {"version", options.version},
                 {"config", answer.config},
                 {"against", answer.against},
                 {"updated", answer.is_update}};
  const auto worst = answer.worst_first();
  report["status"] = ToString(worst.empty() ? CheckStatus::kPass : worst[0]->status);
  const auto counts = answer.counts();
  for (size_t i = 0; i < kCheckStatuses; ++i) {
    report["counts"][std::string(ToString(static_cast<CheckStatus>(i)))] = counts[i];
  }
  report["checks"] = Json::array();
  for (const CheckRow& row : answer.rows) report["checks"].push_back(RowJson(row));
  report["notes"] = answer.notes;
  return Dumped(report) + '\n';
}

}  // namespace onnxfit

#include "estimator/report/check_gitlab.h"

#include <algorithm>

#include "estimator/report/check_findings.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
namespace {

constexpr std::string_view kSeverities[kCheckStatuses] = {"",      "",      "",        "",
                                                          "minor", "major", "critical"};

std::string_view SeverityOf(const CheckRow& row) {
  return kSeverities[static_cast<size_t>(row.status)];
}

// A line is required: the first stands for the whole file.
Json FileLocationJson(const CheckAnswer& answer, const CheckRow& row) {
  return {{"path", FileOf(answer, row)}, {"lines", {{"begin", std::max<int64_t>(1, row.line)}}}};
}

Json IssueJson(const CheckAnswer& answer, const CheckRow& row) {
  return {{"description", PlainLine(row.name + ": " + Headline(row))},
          {"check_name", RuleOf(row).id},
          {"fingerprint", FingerprintOf(row)},
          {"severity", SeverityOf(row)},
          {"location", FileLocationJson(answer, row)}};
}

}  // namespace

std::string ToGitlab(const CheckAnswer& answer) {
  Json issues = Json::array();
  for (const CheckRow& row : answer.rows) {
    if (!SeverityOf(row).empty()) issues.push_back(IssueJson(answer, row));
  }
  return Dumped(issues) + '\n';
}

}  // namespace onnxfit

// A check for services: JSON, JUnit, SARIF, GitLab, github-action-benchmark.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "estimator/report/check.h"
#include "estimator/report/check_parts.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/markup.h"

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

// What follows writes JUnit's XML.
namespace {

// The element that says how a test case ended; passed where there is none.
constexpr std::string_view kElements[kCheckStatuses] = {"", "skipped", "skipped", "",
                                                        "", "failure", "error"};

std::string_view ElementOf(const CheckRow& row) {
  return kElements[static_cast<size_t>(row.status)];
}

size_t Count(const CheckAnswer& answer, std::string_view element) {
  size_t count = 0;
  for (const CheckRow& row : answer.rows) count += ElementOf(row) == element ? 1 : 0;
  return count;
}

std::string BodyOf(const CheckAnswer& answer, const CheckRow& row) {
  std::string body;
  for (const std::string& line : PlainDetails(row)) body += line + '\n';
  const std::string advice = AdviceFor(answer, row);
  if (!advice.empty()) body += advice + '\n';
  if (!row.model.empty()) body += "model: " + PlainLine(row.model) + '\n';
  if (row.line > 0) body += fmt::format("{}:{}\n", PlainLine(FileOf(answer, row)), row.line);
  return body;
}

std::string Outcome(const CheckAnswer& answer, const CheckRow& row) {
  const std::string_view element = ElementOf(row);
  const std::string message = XmlAttribute(PlainLine(Headline(row)));
  if (element == "skipped") return fmt::format("      <skipped message=\"{}\"/>\n", message);
  const std::string body = BodyOf(answer, row);
  if (!element.empty()) {
    return fmt::format("      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n", element,
                       RuleOf(row).id, message, XmlText(body));
  }
  return fmt::format("      <system-out>{}: {}</system-out>\n", StatusWord(row.status),
                     XmlText(body));
}

std::string TestCase(const CheckAnswer& answer, const CheckRow& row) {
  return fmt::format("    <testcase name=\"{}\" classname=\"onnxfit.check\">\n{}    </testcase>\n",
                     XmlAttribute(PlainLine(row.name)), Outcome(answer, row));
}

std::string SuiteOutput(const CheckAnswer& answer) {
  std::string text = SummaryLine(answer) + '\n';
  for (const std::string& note : answer.notes) text += PlainLine(note) + '\n';
  return "    <system-out>" + XmlText(text) + "</system-out>\n";
}

}  // namespace

std::string ToJunit(const CheckAnswer& answer) {
  const std::string totals =
      fmt::format("name=\"onnxfit check\" tests=\"{}\" failures=\"{}\" errors=\"{}\"",
                  answer.rows.size(), Count(answer, "failure"), Count(answer, "error"));
  std::string cases;
  for (const CheckRow& row : answer.rows) cases += TestCase(answer, row);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites {0}>\n  <testsuite {0} skipped=\"{1}\">\n{2}{3}  </testsuite>\n</testsuites>\n",
      totals, Count(answer, "skipped"), cases, SuiteOutput(answer));
}

// What follows writes SARIF.
namespace {

constexpr size_t kMostNodes = 50;  // of a result

Json Text(std::string_view text) { return {{"text", text}}; }

Json RulesJson() {
  Json rules = Json::array();
  for (const FindingRule& rule : kFindingRules) {
    rules.push_back({{"id", rule.id},
                     {"shortDescription", Text(rule.title)},
                     {"fullDescription", Text(rule.says)},
                     {"defaultConfiguration", {{"level", "error"}}},
                     {"help", Text(rule.advice)}});
  }
  return rules;
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  for (size_t i = text.find(from); i != std::string::npos; i = text.find(from, i + to.size())) {
    text.replace(i, from.size(), to);
  }
}

// As sections 3.11.5 and 3.11.6 of the standard want it: braces begin placeholders, "](" is the
// middle of a link.
std::string MessageText(std::string text) {
  ReplaceAll(text, "{", "{{");
  ReplaceAll(text, "}", "}}");
  ReplaceAll(text, "](", "] (");
  return text;
}

Json MessageJson(const CheckAnswer& answer, const CheckRow& row) {
  std::string text = PlainLine(row.name) + ": ";
  for (const std::string& line : PlainDetails(row)) text += line + '\n';
  return Text(MessageText(text + AdviceFor(answer, row)));
}

// The nodes that grew, each once: the standard wants no two that are equal.
Json NodesJson(const CheckRow& row) {
  Json nodes = Json::array();
  if (!row.comparison) return nodes;
  std::set<std::string> seen;
  for (const ChangedPlaces& places : row.comparison->places) {
    if (places.increase() <= 0) continue;
    for (const std::string& name : places.names) {
      const std::string shown = PlainLine(name);
      if (nodes.size() == kMostNodes || !seen.insert(shown).second) continue;
      nodes.push_back({{"fullyQualifiedName", shown}});
    }
  }
  return nodes;
}

// GitHub refuses a file with a location that has no place in a file.
Json LocationJson(const CheckAnswer& answer, const CheckRow& row) {
  Json place = {{"artifactLocation", {{"uri", UriOf(FileOf(answer, row))}}}};
  if (row.line > 0) place["region"] = {{"startLine", row.line}};
  Json location = {{"physicalLocation", place}};
  const Json nodes = NodesJson(row);
  if (!nodes.empty()) location["logicalLocations"] = nodes;
  return location;
}

// GitHub reads the name "primaryLocationLineHash" alone, and would take a hash of the config's
// line for it: all checks of one line would be one alert.
Json FingerprintsJson(const CheckRow& row) {
  const std::string fingerprint = FingerprintOf(row);
  return {{"primaryLocationLineHash", fingerprint}, {"checkAndRule/v1", fingerprint}};
}

Json ResultJson(const CheckAnswer& answer, const CheckRow& row) {
  return {{"ruleId", RuleOf(row).id},
          {"ruleIndex", static_cast<size_t>(FindingOf(row))},
          {"level", row.status == CheckStatus::kWarn ? "warning" : "error"},
          {"message", MessageJson(answer, row)},
          {"locations", Json::array({LocationJson(answer, row)})},
          {"partialFingerprints", FingerprintsJson(row)}};
}

Json ResultsJson(const CheckAnswer& answer) {
  Json results = Json::array();
  for (const CheckRow& row : answer.rows) {
    if (row.status >= CheckStatus::kWarn) results.push_back(ResultJson(answer, row));
  }
  return results;
}

Json InvocationJson(const CheckAnswer& answer) {
  const bool has_answers = answer.counts()[static_cast<size_t>(CheckStatus::kError)] == 0;
  Json invocation = {{"executionSuccessful", has_answers}};
  for (const std::string& note : answer.notes) {
    invocation["toolExecutionNotifications"].push_back(
        {{"level", "note"}, {"message", Text(MessageText(PlainLine(note)))}});
  }
  return invocation;
}

bool IsPlainInUri(unsigned char c) {
  return std::isalnum(c) != 0 ||
         std::string_view("-._~/").find(static_cast<char>(c)) != std::string_view::npos;
}

}  // namespace

std::string UriOf(std::string_view path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    uri += IsPlainInUri(byte) ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return uri;
}

std::string ToSarif(const CheckAnswer& answer, std::string_view version) {
  const Json driver = {{"name", "onnxfit"}, {"version", version}, {"rules", RulesJson()}};
  const Json run = {{"tool", {{"driver", driver}}},
                    {"invocations", Json::array({InvocationJson(answer)})},
                    {"results", ResultsJson(answer)}};
  const Json log = {{"$schema",
                     "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
                     "sarif-schema-2.1.0.json"},
                    {"version", "2.1.0"},
                    {"runs", Json::array({run})}};
  return Dumped(log) + '\n';
}

// What follows writes issues of GitLab's code quality.
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

// What follows writes measurements for github-action-benchmark.
namespace {

// "fp32" of "\"fp32\"": settings are kept as JSON.
std::string ValueText(const std::string& value) {
  const Json json = Json::parse(value, nullptr, false);
  return json.is_string() ? json.get<std::string>() : value;
}

std::string SettingLines(const Snapshot& snapshot) {
  std::string lines = "model: " + PlainLine(snapshot.model);
  for (const auto& [name, value] : snapshot.settings) {
    lines += '\n' + name + ": " + PlainLine(ValueText(value));
  }
  return lines;
}

}  // namespace

std::string ToBench(const CheckAnswer& answer) {
  Json entries = Json::array();
  for (const CheckRow& row : answer.rows) {
    if (!row.now) continue;
    entries.push_back({{"name", PlainLine(row.name)},
                       {"unit", "bytes"},
                       {"value", row.now->device_bytes},
                       {"extra", SettingLines(*row.now)}});
  }
  return Dumped(entries) + '\n';
}

}  // namespace onnxfit

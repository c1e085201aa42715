#include "estimator/report/check_sarif.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "estimator/report/check_findings.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/json_parts.h"

namespace onnxfit {
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

}  // namespace onnxfit

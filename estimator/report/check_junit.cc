#include "estimator/report/check_junit.h"

#include <fmt/format.h>

#include "estimator/report/check_findings.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/xml.h"

namespace onnxfit {
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

}  // namespace onnxfit

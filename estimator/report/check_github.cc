#include "estimator/report/check_github.h"

#include <fmt/format.h>

#include "estimator/report/check_findings.h"
#include "estimator/report/check_sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kMostCommands = 10;

constexpr std::string_view kCommands[kCheckStatuses] = {"",        "",      "notice", "notice",
                                                        "warning", "error", "error"};

std::string_view CommandOf(const CheckRow& row) {
  return kCommands[static_cast<size_t>(row.status)];
}

// `special` as percent and two digits.
std::string Escaped(std::string_view text, std::string_view special) {
  std::string escaped;
  for (const char c : text) {
    const bool is_special = special.find(c) != std::string_view::npos;
    escaped +=
        is_special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return escaped;
}

std::string Property(std::string_view text) { return Escaped(PlainLine(text), "%\r\n:,"); }

std::string PlaceOf(const CheckAnswer& answer, const CheckRow& row) {
  const std::string file = "file=" + Property(FileOf(answer, row));
  return row.line > 0 ? fmt::format("{},line={}", file, row.line) : file;
}

std::string Message(const CheckAnswer& answer, const CheckRow& row) {
  std::string text;
  for (const std::string& line : PlainDetails(row)) text += (text.empty() ? "" : "\n") + line;
  const std::string advice = AdviceFor(answer, row);
  return Escaped(advice.empty() ? text : text + '\n' + advice, "%\r\n");
}

std::string CommandLine(const CheckAnswer& answer, const CheckRow& row) {
  return fmt::format("::{} {},title={}::{}\n", CommandOf(row), PlaceOf(answer, row),
                     Property("onnxfit: " + row.name), Message(answer, row));
}

}  // namespace

std::string ToGithub(const CheckAnswer& answer) {
  std::string text;
  size_t commands = 0;
  for (const CheckRow* row : answer.worst_first()) {
    if (CommandOf(*row).empty()) continue;
    if (commands++ < kMostCommands) text += CommandLine(answer, *row);
  }
  if (commands > kMostCommands) {
    text += fmt::format("and {} more that are not shown here\n", commands - kMostCommands);
  }
  // A line that begins with "::" would be a command, whoever wrote it.
  for (const std::string& note : answer.notes) text += "note: " + PlainLine(note) + '\n';
  return text + SummaryLine(answer) + '\n';
}

}  // namespace onnxfit

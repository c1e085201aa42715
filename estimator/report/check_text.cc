#include "estimator/report/check_text.h"

#include <fmt/format.h>

#include "estimator/report/check_findings.h"
#include "estimator/report/check_sentences.h"
#include "estimator/report/layout.h"
#include "estimator/report/page.h"

namespace onnxfit {
namespace {

constexpr std::string_view kPaints[kCheckStatuses] = {kGreen,  "",   kYellow, kYellow,
                                                      kYellow, kRed, kRed};

// "FAIL  resnet50: grew by …" and what else there is to say, indented.
std::string RowText(const CheckRow& row, const TextOptions& options) {
  const std::string_view paint = options.color ? kPaints[static_cast<size_t>(row.status)] : "";
  const std::string word(StatusWord(row.status));
  const std::vector<std::string> lines = PlainDetails(row, options.rows);
  // The colour goes on after the lines are cut: it takes no column.
  const std::string head =
      Wrap(PadRight(word, 6), Clean(fmt::format("{}: {}", row.name, lines[0]), options.ascii));
  std::string text = Painted({word, paint}) + head.substr(word.size());
  for (size_t i = 1; i < lines.size(); ++i) {
    text += Wrap("        ", Clean(lines[i], options.ascii));
  }
  return text;
}

std::string WhatToDo(const CheckAnswer& answer) {
  for (const CheckRow* row : answer.worst_first()) {
    if (!row->error.empty()) continue;  // it says what to do
    const std::string advice = AdviceFor(answer, *row);
    if (!advice.empty()) return Wrap("", advice);
  }
  return "";
}

}  // namespace

std::string ToText(const CheckAnswer& answer, const TextOptions& options) {
  const std::string summary = Clean(SummaryLine(answer), options.ascii);
  if (options.quiet) return summary + '\n';
  std::string text = Wrap("", summary);
  for (const CheckRow* row : answer.worst_first()) text += RowText(*row, options);
  for (const std::string& note : answer.notes) {
    text += Wrap("note: ", Clean(PlainLine(note), options.ascii));
  }
  return TrimLines(text + WhatToDo(answer));
}

}  // namespace onnxfit

// A check for people: text, Markdown, annotations on GitHub.
#include <fmt/format.h>

#include "estimator/base/bytes.h"
#include "estimator/report/check.h"
#include "estimator/report/check_parts.h"
#include "estimator/report/diff.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"
#include "estimator/report/sentences.h"

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

// What follows writes Markdown.
namespace {

constexpr size_t kMostPassing = 20;
constexpr size_t kMostOthers = 200;
constexpr size_t kMostBytes = 60'000;  // GitHub takes comments of 65,536 characters

bool IsFinding(const CheckRow& row) { return row.status >= CheckStatus::kWarn; }

std::string Bold(const std::string& markdown) { return "**" + markdown + "**"; }

std::string Escaped(std::string_view text) { return MarkdownText(PlainLine(text)); }

std::string StatusCell(const CheckRow& row) {
  const std::string word(StatusWord(row.status));
  return IsFinding(row) ? Bold(word) : word;
}

std::string ChangeCell(const CheckRow& row) {
  if (!row.comparison) return "";
  const int64_t increase = row.comparison->increase();
  if (increase == 0) return "0 B";
  const std::string share = SignedShare(increase, row.comparison->before.device_bytes);
  return SignedBytes(increase) + (share.empty() ? "" : " (" + share + ")");
}

// "50.0%" of what it may be, "OOM", "98.0%, TIGHT".
std::string UsedText(const BudgetResult& budget) {
  const bool is_card = budget.judgement.has_value();
  if (is_card && budget.judgement->verdict == Verdict::kOom) return VerdictWord(Verdict::kOom);
  const double share =
      static_cast<double>(budget.used_bytes) / static_cast<double>(budget.limit_bytes);
  const std::string used = budget.limit_bytes > 0 ? fmt::format("{:.1f}%", 100 * share) : "over";
  const bool is_tight = is_card && budget.judgement->verdict == Verdict::kTight;
  return is_tight ? used + ", " + VerdictWord(Verdict::kTight) : used;
}

std::string BudgetsCell(const CheckRow& row) {
  std::string cell;
  for (const BudgetResult& budget : row.budgets) {
    const std::string text = Escaped(budget.text) + ": " + UsedText(budget);
    cell += (cell.empty() ? "" : "; ") + (budget.holds ? text : Bold(text));
  }
  return cell;
}

std::vector<std::string> CellsOf(const CheckRow& row) {
  return {StatusCell(row), MarkdownCode(PlainLine(row.name)),
          row.now ? FormatBytes(row.now->device_bytes) : "", ChangeCell(row), BudgetsCell(row)};
}

// "and 3 more that pass" for rows that the table has no room for.
std::string MoreText(size_t count, std::string_view what) {
  return count == 0 ? "" : fmt::format("\nand {} more that {}\n", count, what);
}

std::string TableOf(const CheckAnswer& answer) {
  std::vector<std::vector<std::string>> rows;
  size_t passing = 0;
  size_t others = 0;
  for (const CheckRow* row : answer.worst_first()) {
    const bool passes = row->status == CheckStatus::kPass;
    size_t& count = passes ? passing : others;
    if (count++ < (passes ? kMostPassing : kMostOthers)) rows.push_back(CellsOf(*row));
  }
  if (rows.empty()) return "";
  const auto beyond = [](size_t count, size_t most) { return count > most ? count - most : 0; };
  return '\n' + MarkdownTable({"status", "check", "memory", "change", "budgets"}, "llrrl", rows) +
         MoreText(beyond(others, kMostOthers), "do not pass") +
         MoreText(beyond(passing, kMostPassing), "pass");
}

// Its headline, and behind it all that the headline does not say.
std::string DetailsOf(const CheckAnswer& answer, const CheckRow& row) {
  const std::string headline = PlainLine(Headline(row));
  std::vector<std::string> items;
  for (const std::string& line : PlainDetails(row)) {
    if (line != headline) items.push_back(MarkdownText(line));
  }
  items.push_back(AdviceFor(answer, row));
  const std::string summary =
      fmt::format("{} {}: {}", StatusWord(row.status), PlainLine(row.name), headline);
  return fmt::format("\n<details><summary>{}</summary>\n\n{}\n</details>\n", XmlText(summary),
                     MarkdownList(items));
}

// Of as many as there is room for after `used` bytes.
std::string AllDetails(const CheckAnswer& answer, size_t used) {
  std::string text;
  size_t left_out = 0;
  for (const CheckRow* row : answer.worst_first()) {
    if (!IsFinding(*row)) continue;
    const std::string details = DetailsOf(answer, *row);
    const bool has_room = left_out == 0 && used + text.size() + details.size() <= kMostBytes;
    if (has_room) {
      text += details;
    } else {
      ++left_out;
    }
  }
  return left_out == 0 ? text : text + fmt::format("\nThe details of {} are left out.\n", left_out);
}

std::string NotesOf(const CheckAnswer& answer) {
  std::string text;
  for (const std::string& note : answer.notes) text += '\n' + Escaped(note) + '\n';
  return text;
}

}  // namespace

std::string ToMarkdown(const CheckAnswer& answer) {
  std::string text = fmt::format("{}\n{}\n", kCheckMarker, Bold(SummaryLine(answer)));
  text += TableOf(answer);
  text += NotesOf(answer);
  return text + AllDetails(answer, text.size());
}

// What follows writes annotations of a GitHub workflow.
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

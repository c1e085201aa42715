#include "estimator/report/solve.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

using SolvedCells = std::vector<std::vector<Cell>>;

std::string UsedOf(const Judgement& judgement) {
  return fmt::format("{} of {}", FormatBytes(judgement.used_bytes),
                     FormatBytes(judgement.usable_bytes));
}

std::string SettingsOf(const Solved& row) { return RunText(row.settings, row.dims); }

// --- One row ------------------------------------------------------------------------------------

std::string SolvedHeadline(const SolveAnswer& answer, const TextOptions& options) {
  const Solved& row = answer.rows[0];
  const auto& [size, judgement] = row.answer();
  const auto line = [&, size = size, &judged = judgement](std::string_view word,
                                                          std::string_view card) {
    if (size == 0) {
      return fmt::format("{} on {}, not even {} {}: {}", word, card, answer.name, row.judged,
                         UsedOf(judged));
    }
    return fmt::format("{} {} on {}: {}, {}, {:.1f}%", answer.name, size, card, word,
                       UsedOf(judged), 100 * judged.share());
  };
  const std::string word = VerdictWord(judgement.verdict);
  const std::string card = NameBeside(line(word, ""), row.target.name, options);
  return line(Painted({word, options.color ? VerdictPaint(judgement.verdict) : ""}), card) + "\n";
}

std::string HeldRunText(const SolveAnswer& answer) {
  const Solved& row = answer.rows[0];
  std::string text = fmt::format("{}, batch {}, {}", answer.model, row.batch, SettingsOf(row));
  const std::string changes = ChangesText(row.settings, answer.alloc_conf);
  if (!changes.empty()) text += ", with " + changes;
  if (answer.multiple_of > 1) {
    text += fmt::format("; {} in multiples of {}", answer.name, answer.multiple_of);
  }
  return text;
}

// With --strict what is TIGHT fails.
std::string NextSizeText(const SolvedOutcome& next) {
  const std::string lead = fmt::format("{} is the first above it that does not", next.size);
  if (next.judgement.fails_at) {
    return fmt::format("{} run: it {}", lead, FailureText(*next.judgement.fails_at));
  }
  const std::vector<std::string>& reasons = next.judgement.reasons;
  return fmt::format("{} fit{}", lead, reasons.empty() ? "" : ": " + reasons[0]);
}

std::string TightSizesText(const Solved& row) {
  if (row.fits.size == 0) return "none FITS";
  return TightUpToText(row.runs.size, row.runs.judgement);
}

std::string GrowthText(const Solved& row) {
  const std::string last = FormatBytes(row.last_bytes);
  if (!row.grows_faster()) {
    return fmt::format("tensors take about {} for one more, as at half of it", last);
  }
  return fmt::format(
      "tensors take about {} for one more here, {} at half of it: faster than in a "
      "line",
      last, FormatBytes(row.half_bytes));
}

// Why not one more, what it takes, how that grows.
std::vector<std::string> SolvedItems(const Solved& row) {
  std::vector<std::string> items;
  const bool is_tight = row.runs.size > 0 && row.runs.size != row.fits.size;
  if (is_tight) items.push_back(TightSizesText(row));
  if (row.guessed) {
    items.push_back(
        fmt::format("{} if what is likely is so; what {} says is left open, and the worse is taken",
                    *row.guessed, row.reading));
  }
  if (row.is_limited) items.emplace_back("larger ones run, too: --max ends it");
  if (!row.end.empty()) {
    items.push_back(
        fmt::format("{} is the largest that the model takes: {}", row.runs.size, row.end));
  }
  if (row.next && row.runs.size > 0) items.push_back(NextSizeText(*row.next));
  items.push_back(fmt::format("{} allocated, {} reserved, {} of the card",
                              FormatBytes(row.allocated_bytes), FormatBytes(row.reserved_bytes),
                              FormatBytes(row.device_bytes)));
  if (row.last_bytes > 0) items.push_back(GrowthText(row));
  return items;
}

std::string Listed(std::string_view title, const std::vector<std::string>& items,
                   const TextOptions& options) {
  std::string text;
  for (const std::string& item : items) text += Wrap("  - ", Clean(item, options.ascii));
  return text.empty() ? "" : fmt::format("\n{}\n{}", title, text);
}

std::string SolvedWarnings(const Warnings& warnings, const TextOptions& options) {
  std::string text;
  for (const Warning& warning : warnings) {
    text += Wrap(fmt::format("  {}  ", warning.code), Clean(warning.text, options.ascii));
  }
  return text.empty() ? "" : "\nWarnings\n" + text;
}

std::string OneRow(const SolveAnswer& answer, const TextOptions& options) {
  const Solved& row = answer.rows[0];
  std::string text = SolvedHeadline(answer, options);
  if (options.quiet) return text;
  text += Wrap("", Clean(HeldRunText(answer), options.ascii)) +
          VerdictDetails({.target = row.target, .judgement = row.answer().judgement}, options) +
          Listed("Around it", SolvedItems(row), options);
  return TrimLines(text + Listed("Assumptions", row.assumptions, options) +
                   SolvedWarnings(row.warnings, options));
}

// --- Several rows -------------------------------------------------------------------------------

std::string SizeCell(int64_t size) { return size > 0 ? std::to_string(size) : "none"; }

// Where the model takes no larger one, nothing fails.
std::string FailsCell(const Solved& row) {
  if (row.runs.size == 0) return std::to_string(row.judged);
  return row.next ? std::to_string(row.next->size) : "";
}

// A column of the table, and whether it tells rows apart, so that it may be left out.
struct SolvedColumn {
  std::string_view name;
  char align;
  bool may_be_alike;
  std::string (*cell)(const Solved& row);
};

constexpr SolvedColumn kSolvedColumns[] = {
    {"batch", 'r', false, [](const Solved& row) { return std::to_string(row.batch); }},
    {"card", 'l', true, [](const Solved& row) { return row.target.name; }},
    {"run", 'l', true, SettingsOf},
    {"fits", 'r', false, [](const Solved& row) { return SizeCell(row.fits.size); }},
    {"runs", 'r', false, [](const Solved& row) { return SizeCell(row.runs.size); }},
    {"fails", 'r', false, FailsCell},
    {"used", 'r', false,
     [](const Solved& row) { return FormatBytes(row.answer().judgement.used_bytes); }},
    {"share", 'r', false,
     [](const Solved& row) {
       return fmt::format("{:.1f}%", 100 * row.answer().judgement.share());
     }},
    {"verdict", 'l', false,
     [](const Solved& row) { return VerdictWord(row.answer().judgement.verdict); }},
};

bool AreAlike(const SolveAnswer& answer, std::string (*cell)(const Solved& row)) {
  return std::ranges::all_of(answer.rows,
                             [&](const Solved& row) { return cell(row) == cell(answer.rows[0]); });
}

std::string SolvedTable(const SolveAnswer& answer, const TextOptions& options) {
  SolvedCells cells(answer.rows.size() + 1);
  std::string align;
  for (const SolvedColumn& column : kSolvedColumns) {
    if (column.may_be_alike && AreAlike(answer, column.cell)) continue;
    align += column.align;
    cells[0].push_back({std::string(column.name)});
    for (size_t i = 0; i < answer.rows.size(); ++i) {
      cells[i + 1].push_back({Clean(column.cell(answer.rows[i]), options.ascii)});
    }
  }
  for (size_t i = 0; i < answer.rows.size() && options.color; ++i) {
    cells[i + 1].back().paint = VerdictPaint(answer.rows[i].answer().judgement.verdict);
  }
  return Table(cells, align, kIndent);
}

// "262", "262 to 1024".
std::string SizesOf(const SolveAnswer& answer, int64_t (*size_of)(const Solved& row)) {
  const auto [least, most] = std::ranges::minmax(answer.rows, {}, size_of);
  const std::string first = std::to_string(size_of(least));
  return size_of(least) == size_of(most) ? first : fmt::format("{} to {}", first, size_of(most));
}

// What has no column, as it is the same of all rows: ", fp32, adamw, on t4".
std::string AlikeText(const SolveAnswer& answer) {
  const auto card_of = [](const Solved& row) { return row.target.name; };
  const Solved& first = answer.rows[0];
  return (AreAlike(answer, SettingsOf) ? ", " + SettingsOf(first) : "") +
         (AreAlike(answer, card_of) ? ", on " + card_of(first) : "");
}

std::string SeveralRows(const SolveAnswer& answer, const TextOptions& options) {
  std::string text = fmt::format("{} {} FITS, {} run, in {} rows\n", answer.name,
                                 SizesOf(answer, [](const Solved& row) { return row.fits.size; }),
                                 SizesOf(answer, [](const Solved& row) { return row.runs.size; }),
                                 answer.rows.size());
  if (options.quiet) return text;
  text += Wrap("", Clean(answer.model + AlikeText(answer), options.ascii));
  return TrimLines(text + "\n" + SolvedTable(answer, options));
}

// --- JSON ---------------------------------------------------------------------------------------

Json OutcomeJson(const SolvedOutcome& outcome) {
  Json json = {{"size", outcome.size}};
  if (outcome.size > 0) json["used_bytes"] = outcome.judgement.used_bytes;
  return json;
}

Json NextSizeJson(const SolvedOutcome& next) {
  Json json = {{"size", next.size}, {"verdict", ToString(next.judgement.verdict)}};
  if (next.judgement.fails_at) json["fails_at"] = FailureJson(*next.judgement.fails_at);
  return json;
}

void PutWhyNotMore(const Solved& row, Json& json) {
  if (row.next) json["next"] = NextSizeJson(*row.next);
  if (row.is_limited) json["limited"] = true;
  PutIfKnown(json, "end", row.end);
  if (row.guessed) json["guessed"] = {{"size", *row.guessed}, {"reading", row.reading}};
}

Json SolvedJson(const Solved& row) {
  Json json = {{"batch", row.batch},
               {"dims", Json(row.dims)},
               {"precision", ToString(row.settings.precision)},
               {"optimizer", ToString(row.settings.optimizer)},
               {"mode", ToString(row.settings.mode)},
               {"gpu", row.target.name},
               {"memory_bytes", row.target.total_bytes},
               {"fits", OutcomeJson(row.fits)},
               {"runs", OutcomeJson(row.runs)}};
  PutWhyNotMore(row, json);
  json["allocated_bytes"] = row.allocated_bytes;
  json["reserved_bytes"] = row.reserved_bytes;
  json["device_bytes"] = row.device_bytes;
  if (row.last_bytes > 0) {
    json["one_more_bytes"] = {{"last", row.last_bytes}, {"half", row.half_bytes}};
  }
  json["target"] = TargetJson({.target = row.target, .judgement = row.answer().judgement});
  json["assumptions"] = Json(row.assumptions);
  json["warnings"] = WarningsJson(row.warnings);
  return json;
}

}  // namespace

std::string ToText(const SolveAnswer& answer, const TextOptions& options) {
  return answer.rows.size() == 1 ? OneRow(answer, options) : SeveralRows(answer, options);
}

std::string ToJson(const SolveAnswer& answer, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"text", ToText(answer)},
               {"model", answer.model},
               {"solve", answer.name},
               {"multiple_of", answer.multiple_of},
               {"framework", FrameworkJson(answer.rows[0].settings)},
               {"rows", Json::array()}};
  for (const Solved& row : answer.rows) json["rows"].push_back(SolvedJson(row));
  return Dumped(json) + '\n';
}

}  // namespace onnxfit

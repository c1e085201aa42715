#include <fmt/format.h>
#include <fmt/ranges.h>

#include "estimator/base/bytes.h"
#include "estimator/report/estimate.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr size_t kWidestFormBar = 20;
constexpr std::string_view kFormAlign = "lrrlll";

// "175.0 billion", "1.30 billion", "124.4 million", "4096".
std::string CountText(int64_t count) {
  constexpr std::pair<double, std::string_view> kUnits[] = {
      {1e12, "trillion"}, {1e9, "billion"}, {1e6, "million"}};
  const auto value = static_cast<double>(count);
  for (const auto& [unit, name] : kUnits) {
    if (value < unit) continue;
    return fmt::format("{:.{}f} {}", value / unit, value / unit < 10 ? 2 : 1, name);
  }
  return std::to_string(count);
}

std::string FormHeadline(const ClosedForm& form) {
  return Wrap("", fmt::format("{} parameters, batch {}, {}: {} by a closed form",
                              CountText(form.numbers.parameters), form.batch,
                              RunText(form.settings, {}), FormatBytes(form.total_bytes)));
}

// "at least 40 x a100-80gb or 40 x h100 would hold it".
std::string CardsText(const ClosedForm& form, const Glyphs& glyphs) {
  std::vector<std::string> texts;
  for (const CardCount& count : form.cards) {
    texts.push_back(count.cards == 0
                        ? fmt::format("no number of {}", count.target.name)
                        : fmt::format("{} {} {}", count.cards, glyphs.times, count.target.name));
  }
  return fmt::format("a formula, not a replay: at least {} would hold it",
                     fmt::join(texts, " or "));
}

std::string NumbersText(const TransformerNumbers& n) {
  return fmt::format("{} layers, hidden {}, {} heads, {} tokens a sample, a vocabulary of {}",
                     n.layers, n.hidden, *n.heads, *n.sequence, *n.vocabulary);
}

std::string FormBreakdown(const ClosedForm& form, const TextOptions& options) {
  const Glyphs& glyphs = GlyphsOf(options);
  const std::vector<std::string> shares = SharesOf(form.breakdown, form.total_bytes);
  std::vector<std::vector<Cell>> cells;
  for (size_t i = 0; i < form.breakdown.size(); ++i) {
    const BreakdownRow& row = form.breakdown[i];
    const std::string bar = Bar(ShareOf(row.bytes, form.total_bytes), kWidestFormBar, glyphs);
    cells.push_back({{WithSpaces(row.kind)},
                     {FormatBytes(row.bytes)},
                     {shares[i]},
                     {bar, options.color ? kCyan : ""},
                     {std::string(ToString(row.basis))},
                     {RangeText(row, glyphs.dash)}});
  }
  cells.push_back({{"total"}, {FormatBytes(form.total_bytes)}, {"100.0%"}});
  return "\nWhere the bytes go\n" + Table(cells, kFormAlign, kIndent);
}

std::string ProductLines(const ClosedForm& form) {
  std::string text = "\nHow they are counted\n";
  for (const ClosedFormProduct& product : form.products) {
    text += Wrap(fmt::format("  {}: ", WithSpaces(product.kind)), product.text);
  }
  return text;
}

std::string FormRemarks(const ClosedForm& form) {
  std::string text = "\nAssumptions\n";
  for (const std::string& assumption : form.assumptions) text += Wrap("  - ", assumption);
  if (!form.warnings.empty()) text += "\nWarnings\n";
  for (const Warning& warning : form.warnings) {
    text += Wrap(fmt::format("  {}  ", warning.code), warning.text);
  }
  return text;
}

Json NumbersJson(const TransformerNumbers& n) {
  return {{"parameters", n.parameters}, {"layers", n.layers},      {"hidden", n.hidden},
          {"heads", *n.heads},          {"sequence", *n.sequence}, {"vocabulary", *n.vocabulary}};
}

Json FormRows(const ClosedForm& form) {
  Json rows = Json::array();
  for (size_t i = 0; i < form.breakdown.size(); ++i) {
    const BreakdownRow& row = form.breakdown[i];
    Json& json = rows.emplace_back(Json{{"kind", row.kind}, {"bytes", row.bytes}});
    if (row.low) json["low"] = *row.low;
    if (row.high) json["high"] = *row.high;
    json["basis"] = ToString(row.basis);
    json["product"] = form.products[i].text;
  }
  return rows;
}

Json CardsJson(const ClosedForm& form) {
  Json cards = Json::array();
  for (const CardCount& count : form.cards) {
    cards.push_back({{"gpu", count.target.name},
                     {"capacity_bytes", count.target.usable_bytes()},
                     {"cards", count.cards},
                     {"asked", count.is_asked}});
  }
  return cards;
}

}  // namespace

std::string ToText(const ClosedForm& form, const TextOptions& options) {
  std::string text = FormHeadline(form);
  if (options.quiet) return text;
  text += Wrap("", CardsText(form, GlyphsOf(options))) + Wrap("", NumbersText(form.numbers));
  text += FormBreakdown(form, options) + ProductLines(form) + FormRemarks(form);
  return TrimLines(text);
}

std::string ToJson(const ClosedForm& form, const JsonOptions& options) {
  const TrainingSettings& settings = form.settings;
  const Json json = {{"schema", 1},
                     {"version", options.version},
                     {"closed_form", true},
                     {"numbers", NumbersJson(form.numbers)},
                     {"settings",
                      {{"batch", form.batch},
                       {"precision", ToString(settings.precision)},
                       {"optimizer", ToString(settings.optimizer)},
                       {"mode", ToString(settings.mode)},
                       {"framework", settings.framework.name}}},
                     {"framework", FrameworkJson(settings)},
                     {"total_bytes", form.total_bytes},
                     {"breakdown", FormRows(form)},
                     {"cards", CardsJson(form)},
                     {"assumptions", form.assumptions},
                     {"warnings", WarningsJson(form.warnings)}};
  return Dumped(json) + '\n';
}

}  // namespace onnxfit

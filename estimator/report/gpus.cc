// The cards of the table: text, Markdown, comma-separated values, JSON.
#include "estimator/report/gpus.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/base/contexts.h"
#include "estimator/base/device.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"

namespace onnxfit {
namespace {

using Rows = std::vector<std::vector<Cell>>;

constexpr std::string_view kCardAlign = "llrrrr";
constexpr size_t kCardName = 1;  // its column: cut where a line would be too wide

constexpr std::string_view kDerived = "~";
constexpr std::string_view kWindows = "*";

std::string_view MarkOf(TotalSource source) {
  if (source == TotalSource::kSeen) return "";
  return source == TotalSource::kSeenWindows ? kWindows : kDerived;
}

bool IsMarked(const std::string& cell) {
  return cell.starts_with(kDerived) || cell.starts_with(kWindows);
}

std::string ContextText(const ContextBytes& context) {
  const std::string_view mark = context.basis == Basis::kMeasured ? "" : kDerived;
  return fmt::format("{}{} MiB", mark, context.bytes / kMiB);
}

std::vector<Cell> PaintedCells(const std::vector<std::string>& cells, const TextOptions& options) {
  std::vector<Cell> row;
  for (const std::string& cell : cells) {
    row.push_back({cell, options.color && IsMarked(cell) ? kYellow : ""});
  }
  return row;
}

// Its number says as much.
std::string_view WithoutGeForce(std::string_view name) {
  constexpr std::string_view kSeries = "GeForce ";
  return name.starts_with(kSeries) ? name.substr(kSeries.size()) : name;
}

void CutCardNames(Rows& rows, const TextOptions& options) {
  const Glyphs& glyphs = options.ascii ? kAsciiGlyphs : kUnicodeGlyphs;
  const std::vector<size_t> widths = ColumnWidths(rows, kCardAlign.size());
  size_t others = 2 * (kCardAlign.size() - 1);
  for (size_t i = 0; i < widths.size(); ++i) others += i == kCardName ? 0 : widths[i];
  const size_t room = kReportColumns - others;
  for (std::vector<Cell>& row : rows) {
    std::string& name = row[kCardName].text;
    if (Columns(name) > room) name = CutMiddle(WithoutGeForce(name), room, glyphs.ellipsis);
  }
}

bool HasTotal(const std::vector<const Card*>& cards, std::string_view mark) {
  return std::any_of(cards.begin(), cards.end(),
                     [&](const Card* card) { return MarkOf(card->total_source) == mark; });
}

std::string MemoryNote(const std::vector<const Card*>& cards) {
  std::string text = "the least that CUDA was seen to show as total";
  if (HasTotal(cards, kWindows)) text += "; * seen on Windows alone, Linux shows less";
  if (HasTotal(cards, kDerived)) {
    text +=
        "; ~ not seen: derived from what nvidia-smi shows, what it is sold with, or its memory "
        "without ECC";
  }
  return text;
}

bool HasEcc(const Card* card) { return card->without_ecc_bytes > 0; }

// "47.4 GiB of a6000, 23.9 GiB of p40"
std::string EccNote(const std::vector<const Card*>& cards) {
  std::string off;
  for (const Card* card : cards) {
    if (!HasEcc(card)) continue;
    off += fmt::format("{}{} of {}", off.empty() ? "" : ", ", FormatBytes(card->without_ecc_bytes),
                       card->alias);
  }
  return "the memory is that with it on, which counts; with it off CUDA shows " + off;
}

std::string ContextNote(const std::vector<const Card*>& cards) {
  const auto is_assumed = [](const Card* card) {
    return card->device.context.basis != Basis::kMeasured;
  };
  std::string text = "what each process takes of it before any tensor";
  if (std::any_of(cards.begin(), cards.end(), is_assumed)) text += "; ~ assumed, not measured";
  return text;
}

const std::vector<std::string>& CardColumns() {
  static const std::vector<std::string> columns = {"card", "name", "memory",
                                                   "CC",   "SMs",  "context"};
  return columns;
}

std::vector<std::string> CardCells(const Card& card) {
  return {std::string(card.alias),
          std::string(card.device.name),
          fmt::format("{}{}", MarkOf(card.total_source), FormatBytes(card.total_bytes)),
          CapabilityText(card.device.compute_capability),
          fmt::format("{}", card.device.multiprocessors),
          ContextText(card.device.context)};
}

std::vector<CardNote> CardNotes(const std::vector<const Card*>& cards) {
  std::vector<CardNote> notes = {{"memory", MemoryNote(cards)},
                                 {"CC, SMs", "compute capability, multiprocessors"},
                                 {"context", ContextNote(cards)}};
  if (std::ranges::any_of(cards, HasEcc)) notes.push_back({"ECC", EccNote(cards)});
  const auto shares = [](const Card* card) { return card->shares_memory; };
  if (std::any_of(cards.begin(), cards.end(), shares)) {
    notes.push_back({"Jetson, GB10",
                     "the CPU has a share of that memory; the context is the runtime's libraries "
                     "and kernels, which lie there, too"});
  }
  return notes;
}

}  // namespace

std::string CapabilityText(int compute_capability) {
  return compute_capability == 0
             ? ""
             : fmt::format("{}.{}", compute_capability / 10, compute_capability % 10);
}

namespace {

// "111 cards", "1 of 111 cards and its 6 slices", "6 slices".
std::string CountsText(const std::vector<const Card*>& cards) {
  const auto is_slice = [](const Card* card) { return !card->slice_of.empty(); };
  const auto slices = static_cast<size_t>(std::count_if(cards.begin(), cards.end(), is_slice));
  const size_t whole = cards.size() - slices;
  const size_t known = Cards().size();
  if (whole == 0) return fmt::format("{} slice{}", slices, slices == 1 ? "" : "s");
  if (slices > 0) return fmt::format("{} of {} cards and its {} slices", whole, known, slices);
  return whole == known ? fmt::format("{} cards", known)
                        : fmt::format("{} of {} cards", whole, known);
}

}  // namespace

std::string ToText(const std::vector<const Card*>& cards, const TextOptions& options) {
  std::string text = CountsText(cards) + '\n';
  if (options.quiet) return text;
  Rows rows = {PaintedCells(CardColumns(), options)};
  for (const Card* card : cards) rows.push_back(PaintedCells(CardCells(*card), options));
  CutCardNames(rows, options);
  text += '\n' + Table(rows, kCardAlign, "") + '\n';
  for (const CardNote& note : CardNotes(cards)) text += Wrap(note.about + ": ", note.text);
  return TrimLines(text);
}

std::string ToText(const std::vector<const CloudInstances*>& machines, const TextOptions& options) {
  if (machines.empty() || options.quiet) return "";
  const std::string_view times = (options.ascii ? kAsciiGlyphs : kUnicodeGlyphs).times;
  std::string text = "\nMachines\n";
  for (const CloudInstances* row : machines) {
    const std::string count = row->cards == 1 ? "" : fmt::format("{} {} ", row->cards, times);
    text += Wrap(fmt::format("  {}, {}{}: ", row->cloud, count, row->alias), row->names);
  }
  return text;
}

// What follows writes Markdown and comma-separated values.
namespace {

using Fields = std::vector<std::string>;

Fields CsvFields(const Card& card) {
  const ContextBytes& context = card.device.context;
  return {std::string(card.alias),
          std::string(card.device.name),
          std::string(card.family),
          std::string(card.memory_type),
          std::to_string(card.sold_bytes),
          std::to_string(card.total_bytes),
          std::string(ToString(card.total_source)),
          card.shares_memory ? "true" : "false",
          CapabilityText(card.device.compute_capability),
          std::to_string(card.device.multiprocessors),
          std::to_string(context.bytes),
          std::to_string(context.low),
          std::to_string(context.high),
          std::string(ToString(context.basis)),
          HasEcc(&card) ? std::to_string(card.without_ecc_bytes) : ""};
}

}  // namespace

std::string ToMarkdown(const std::vector<const Card*>& cards) {
  std::vector<Fields> rows;
  for (const Card* card : cards) {
    Fields& row = rows.emplace_back();
    for (const std::string& cell : CardCells(*card)) row.push_back(MarkdownText(cell));
  }
  Fields notes;
  for (const CardNote& note : CardNotes(cards)) {
    notes.push_back(note.about + ": " + MarkdownText(note.text));
  }
  return MarkdownTable(CardColumns(), "llrrrr", rows) + '\n' + MarkdownList(notes);
}

std::string ToCsv(const std::vector<const Card*>& cards) {
  std::string text = CsvLine({"alias", "name", "family", "memory_type", "sold_bytes", "total_bytes",
                              "total_source", "shares_memory", "compute_capability",
                              "multiprocessors", "context_bytes", "context_low", "context_high",
                              "context_basis", "without_ecc_bytes"});
  for (const Card* card : cards) text += CsvLine(CsvFields(*card));
  return text;
}

// What follows writes JSON.
namespace {

Json ContextJson(const Card& card) {
  const ContextBytes& context = card.device.context;
  Json json = {{"bytes", context.bytes},
               {"low", context.low},
               {"high", context.high},
               {"basis", ToString(context.basis)}};
  if (context.basis == Basis::kMeasured) json["evidence"] = ContextEvidence(card);
  return json;
}

// The machines of clouds that have it.
Json MachinesJson(const Card& card) {
  Json machines = Json::array();
  for (const CloudInstances& row : AllCloudInstances()) {
    if (row.alias != card.alias) continue;
    for (const std::string_view name : NamesOf(row)) {
      machines.push_back({{"cloud", row.cloud}, {"name", name}, {"cards", row.cards}});
    }
  }
  return machines;
}

Json CardJson(const Card& card) {
  Json json = {{"alias", card.alias},
               {"name", card.device.name},
               {"family", card.family},
               {"memory_type", card.memory_type},
               {"sold_bytes", card.sold_bytes},
               {"total_bytes", card.total_bytes},
               {"total_source", ToString(card.total_source)},
               {"shares_memory", card.shares_memory}};
  if (HasEcc(&card)) json["without_ecc_bytes"] = card.without_ecc_bytes;
  if (!card.slice_of.empty()) json["slice_of"] = card.slice_of;
  PutIfKnown(json, "compute_capability", CapabilityText(card.device.compute_capability));
  json["multiprocessors"] = card.device.multiprocessors;
  json["context"] = ContextJson(card);
  if (Json machines = MachinesJson(card); !machines.empty()) json["machines"] = machines;
  return json;
}

}  // namespace

std::string ToJson(const std::vector<const Card*>& cards) {
  Json rows = Json::array();
  for (const Card* card : cards) rows.push_back(CardJson(*card));
  return Dumped(rows) + '\n';
}

}  // namespace onnxfit

// The cards of this machine: text, Markdown, comma-separated values, JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "estimator/base/bytes.h"
#include "estimator/report/gpus.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/markup.h"

namespace onnxfit {
namespace {

using Rows = std::vector<std::vector<Cell>>;

constexpr std::string_view kDetectedAlign = "rlrrrrll";
constexpr size_t kDetectedName = 1;   // its column: cut where a line would be too wide
constexpr size_t kAboutColumns = 12;  // of what is said of one card

std::string SharedFirstText(const Share& share) {
  return fmt::format("; {} go to the {} first ({})", FormatBytes(share.bytes), share.what,
                     ToString(share.basis));
}

std::string UsableText(const Target& target) {
  const ContextBytes& context = target.device.context;
  std::string text = fmt::format("{} for a process, {} of that its context ({})",
                                 FormatBytes(target.usable_bytes()), FormatBytes(context.bytes),
                                 ToString(context.basis));
  for (const Share& share : target.shares) text += SharedFirstText(share);
  return text;
}

std::string TableText(const CardAtHand& card) {
  if (card.row == nullptr) return "no row has its name: its context is a guess";
  return fmt::format("its row is {}, with {} of memory", card.row->alias,
                     FormatBytes(card.row->total_bytes));
}

std::string ProcessText(const GpuProcess& process) {
  return fmt::format("{} (pid {}) {}", process.name.empty() ? "one without a name" : process.name,
                     process.pid, process.bytes ? FormatBytes(*process.bytes) : "of unknown size");
}

std::string OtherProcessesText(const DetectedGpu& gpu) {
  if (gpu.others.empty()) {
    return gpu.process_bytes ? "none that the driver shows" : "the driver does not tell";
  }
  std::vector<std::string> texts;
  for (const GpuProcess& process : gpu.others) texts.push_back(ProcessText(process));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::vector<Cell> CellsOf(const std::vector<std::string>& texts, const TextOptions& options) {
  std::vector<Cell> row;
  for (const std::string& text : texts) row.push_back({Clean(text, options.ascii)});
  return row;
}

void CutNames(Rows& rows, const TextOptions& options) {
  const std::vector<size_t> widths = ColumnWidths(rows, kDetectedAlign.size());
  const size_t gaps = 2 * (kDetectedAlign.size() - 1);
  const size_t others = std::accumulate(widths.begin(), widths.end(), gaps) - widths[kDetectedName];
  for (std::vector<Cell>& row : rows) {
    row[kDetectedName].text =
        CutMiddle(row[kDetectedName].text, kReportColumns - others, GlyphsOf(options).ellipsis);
  }
}

const std::vector<std::string>& DetectedColumns() {
  static const std::vector<std::string> columns = {"GPU",    "name", "CC",     "SMs",
                                                   "memory", "free", "driver", "CUDA"};
  return columns;
}

std::vector<std::string> DetectedCells(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  return {fmt::format("{}", gpu.index),           std::string(WithoutMaker(gpu.name)),
          CapabilityText(gpu.compute_capability), fmt::format("{}", gpu.multiprocessors),
          FormatBytes(gpu.total_bytes),           card.target ? FormatBytes(gpu.free_bytes) : "?",
          gpu.driver.empty() ? "?" : gpu.driver,  CudaVersionText(gpu.cuda_driver)};
}

std::vector<CardNote> DetectedNotes(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  return {card.target ? CardNote{"usable", UsableText(*card.target)}
                      : CardNote{"unusable", gpu.why_unusable},
          {"others", OtherProcessesText(gpu)},
          {"table", TableText(card)},
          {"row", TableRow(card)}};
}

std::vector<CardNote> ColumnNotes(const std::vector<CardAtHand>& cards) {
  std::vector<CardNote> notes = {
      {"memory, free", "what CUDA shows, with the context of this process on the card"},
      {"CC, SMs", "compute capability, multiprocessors"},
      {"CUDA", fmt::format("the newest that the driver runs; this onnxfit has {}",
                           CudaVersionText(cards[0].gpu.cuda_runtime))},
      {"row", "for estimator/base/cards.cc, with what was seen here"}};
  const auto is_new = [](const CardAtHand& card) { return card.row == nullptr; };
  if (std::any_of(cards.begin(), cards.end(), is_new)) {
    notes.back().text +=
        "; by hand: family (consumer, laptop, workstation, datacenter, cloud, edge or jetson) and "
        "type of memory for \"?\"; the alias and the GiB that it is sold with are guesses";
  }
  return notes;
}

std::string CardText(const CardAtHand& card, const TextOptions& options) {
  std::string text = fmt::format("\nGPU {}\n", card.gpu.index);
  for (const CardNote& note : DetectedNotes(card)) {
    text += Wrap(PadRight("  " + note.about, kAboutColumns), Clean(note.text, options.ascii));
  }
  return text;
}

}  // namespace

std::string ToText(const std::vector<CardAtHand>& cards, const TextOptions& options) {
  std::string text =
      cards.size() == 1 ? "1 GPU at hand\n" : fmt::format("{} GPUs at hand\n", cards.size());
  if (options.quiet) return text;
  Rows rows = {CellsOf(DetectedColumns(), options)};
  for (const CardAtHand& card : cards) rows.push_back(CellsOf(DetectedCells(card), options));
  CutNames(rows, options);
  text += '\n' + Table(rows, kDetectedAlign, "");
  for (const CardAtHand& card : cards) text += CardText(card, options);
  text += '\n';
  for (const CardNote& note : ColumnNotes(cards)) text += Wrap(note.about + ": ", note.text);
  return TrimLines(text);
}

// What follows writes Markdown and comma-separated values.
namespace {

using Fields = std::vector<std::string>;

std::string Number(const std::optional<int64_t>& bytes) {
  return bytes ? std::to_string(*bytes) : "";
}

// Of other processes, and of the operating system where the CPU has a share.
int64_t OthersBytes(const Target& target) { return target.total_bytes - target.usable_bytes(); }

Fields TargetFields(const std::optional<Target>& target) {
  if (!target) return {"", "", "", "", "", ""};
  const ContextBytes& context = target->device.context;
  return {std::to_string(target->usable_bytes()), std::to_string(OthersBytes(*target)),
          std::to_string(context.bytes),          std::to_string(context.low),
          std::to_string(context.high),           std::string(ToString(context.basis))};
}

Fields CsvFields(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  Fields fields = {std::to_string(gpu.index),
                   gpu.name,
                   std::string(card.row ? card.row->alias : ""),
                   CapabilityText(gpu.compute_capability),
                   std::to_string(gpu.multiprocessors),
                   gpu.shares_memory ? "true" : "false",
                   std::to_string(gpu.total_bytes),
                   card.target ? std::to_string(gpu.free_bytes) : "",
                   Number(gpu.smi_bytes)};
  for (std::string& field : TargetFields(card.target)) fields.push_back(std::move(field));
  fields.insert(fields.end(),
                {gpu.driver, CudaVersionText(gpu.cuda_driver), gpu.why_unusable, TableRow(card)});
  return fields;
}

}  // namespace

std::string ToMarkdown(const std::vector<CardAtHand>& cards) {
  std::vector<Fields> rows;
  Fields notes;
  for (const CardAtHand& card : cards) {
    Fields& row = rows.emplace_back();
    for (const std::string& cell : DetectedCells(card)) row.push_back(MarkdownText(cell));
    for (const CardNote& note : DetectedNotes(card)) {
      const std::string text =
          note.about == "row" ? MarkdownCode(note.text) : MarkdownText(note.text);
      notes.push_back(fmt::format("GPU {}, {}: {}", card.gpu.index, note.about, text));
    }
  }
  for (const CardNote& note : ColumnNotes(cards)) {
    notes.push_back(note.about + ": " + MarkdownText(note.text));
  }
  return MarkdownTable(DetectedColumns(), "rlrrrrll", rows) + '\n' + MarkdownList(notes);
}

std::string ToCsv(const std::vector<CardAtHand>& cards) {
  std::string text =
      CsvLine({"index", "name", "alias", "compute_capability", "multiprocessors", "shares_memory",
               "total_bytes", "free_bytes", "smi_bytes", "usable_bytes", "others_bytes",
               "context_bytes", "context_low", "context_high", "context_basis", "driver",
               "cuda_driver", "why_unusable", "table_row"});
  for (const CardAtHand& card : cards) text += CsvLine(CsvFields(card));
  return text;
}

// What follows writes JSON.
namespace {

void PutBytes(Json& object, const char* key, const std::optional<int64_t>& bytes) {
  if (bytes) object[key] = *bytes;
}

void PutTarget(Json& json, const Target& target) {
  const ContextBytes& context = target.device.context;
  json["usable_bytes"] = target.usable_bytes();
  json["context"] = {{"bytes", context.bytes},
                     {"low", context.low},
                     {"high", context.high},
                     {"basis", ToString(context.basis)}};
  if (!target.shares.empty()) json["shares"] = SharesJson(target.shares);
}

Json OthersJson(const std::vector<GpuProcess>& others) {
  Json rows = Json::array();
  for (const GpuProcess& process : others) {
    Json& row = rows.emplace_back(Json{{"pid", process.pid}});
    PutIfKnown(row, "name", process.name);
    PutBytes(row, "bytes", process.bytes);
  }
  return rows;
}

Json CardJson(const CardAtHand& card) {
  const DetectedGpu& gpu = card.gpu;
  Json json = {{"index", gpu.index}, {"name", gpu.name}};
  if (card.row != nullptr) json["alias"] = card.row->alias;
  PutIfKnown(json, "why_unusable", gpu.why_unusable);
  PutIfKnown(json, "compute_capability", CapabilityText(gpu.compute_capability));
  json["multiprocessors"] = gpu.multiprocessors;
  json["threads_per_multiprocessor"] = gpu.threads_per_multiprocessor;
  json["shares_memory"] = gpu.shares_memory;
  json["total_bytes"] = gpu.total_bytes;
  if (card.target) json["free_bytes"] = gpu.free_bytes;
  PutBytes(json, "smi_bytes", gpu.smi_bytes);
  PutBytes(json, "process_bytes", gpu.process_bytes);
  if (card.target) PutTarget(json, *card.target);
  if (!gpu.others.empty()) json["others"] = OthersJson(gpu.others);
  PutIfKnown(json, "driver", gpu.driver);
  json["cuda_driver"] = CudaVersionText(gpu.cuda_driver);
  json["cuda_runtime"] = CudaVersionText(gpu.cuda_runtime);
  json["table_row"] = TableRow(card);
  return json;
}

}  // namespace

std::string ToJson(const std::vector<CardAtHand>& cards) {
  Json rows = Json::array();
  for (const CardAtHand& card : cards) rows.push_back(CardJson(card));
  return Dumped(rows) + '\n';
}

}  // namespace onnxfit

#include "estimator/report/detected_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/page.h"

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

std::string CardText(const CardAtHand& card, const TextOptions& options) {
  std::string text = fmt::format("\nGPU {}\n", card.gpu.index);
  for (const CardNote& note : DetectedNotes(card)) {
    text += Wrap(PadRight("  " + note.about, kAboutColumns), Clean(note.text, options.ascii));
  }
  return text;
}

}  // namespace

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

}  // namespace onnxfit

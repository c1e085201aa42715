#include "estimator/report/detected_tables.h"

#include <fmt/format.h>

#include "estimator/report/csv.h"
#include "estimator/report/detected_text.h"
#include "estimator/report/markdown.h"

namespace onnxfit {
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

}  // namespace onnxfit

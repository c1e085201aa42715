#include "estimator/report/gpus_tables.h"

#include "estimator/report/csv.h"
#include "estimator/report/gpus_text.h"
#include "estimator/report/markdown.h"

namespace onnxfit {
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
          std::string(ToString(context.basis))};
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
  std::string text =
      CsvLine({"alias", "name", "family", "memory_type", "sold_bytes", "total_bytes",
               "total_source", "shares_memory", "compute_capability", "multiprocessors",
               "context_bytes", "context_low", "context_high", "context_basis"});
  for (const Card* card : cards) text += CsvLine(CsvFields(*card));
  return text;
}

}  // namespace onnxfit

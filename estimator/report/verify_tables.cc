#include "estimator/report/verify_tables.h"

#include <fmt/format.h>

#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/csv.h"
#include "estimator/report/layout.h"
#include "estimator/report/markdown.h"
#include "estimator/report/settings_text.h"
#include "estimator/report/verdict_text.h"
#include "estimator/report/verify_sentences.h"

namespace onnxfit {
namespace {

using MarkdownRows = std::vector<std::vector<std::string>>;

std::string Shown(const std::string& text, const TextOptions& options) {
  return MarkdownText(Clean(text, options.ascii));
}

std::string Head(const std::string& word, const std::string& card, const std::string& answer,
                 const TextOptions& options) {
  return fmt::format("**{}** on {}: {}\n", word, Shown(card, options), Shown(answer, options));
}

std::string Notes(const std::vector<std::string>& notes, const TextOptions& options) {
  std::vector<std::string> items;
  for (const std::string& note : notes) items.push_back(Shown(note, options));
  return '\n' + MarkdownList(items);
}

std::string EndOf(const ReplayedBatch& replayed) {
  return replayed.failure ? FailureText(replayed.failure->failure) : "runs";
}

}  // namespace

std::string ToMarkdown(const Verification& verification, const TextOptions& options) {
  const Estimate& estimate = verification.estimate;
  std::string text =
      Head(ProofWord(verification.proof), verification.gpu.name, ProofText(verification), options);
  if (options.quiet) return text;
  text += fmt::format("\n{}, {}\n\n", MarkdownCode(Clean(estimate.model.path, options.ascii)),
                      Shown(SettingsText(estimate), options));
  MarkdownRows rows;
  for (const ProofRow& row : verification.rows) {
    rows.push_back({row.what, FormatBytes(row.predicted_bytes), FormatBytes(row.measured_bytes),
                    DifferenceText(row)});
  }
  return text +
         MarkdownTable({"beyond the context", "predicted", "measured", "difference"}, "lrrr",
                       rows) +
         Notes(ProofNotes(verification), options);
}

std::string ToCsv(const Verification& verification) {
  std::string text = CsvLine({"what", "predicted_bytes", "measured_bytes", "holds"});
  for (const ProofRow& row : verification.rows) {
    text += CsvLine({row.what, std::to_string(row.predicted_bytes),
                     std::to_string(row.measured_bytes), row.holds ? "true" : "false"});
  }
  return text;
}

std::string ToMarkdown(const VerifiedMaxBatch& answer, const TextOptions& options) {
  std::string text =
      Head(fmt::format("batch {}", answer.batch), answer.gpu.name, MaxBatchText(answer), options);
  if (options.quiet) return text;
  MarkdownRows rows;
  for (const ReplayedBatch& replayed : answer.replayed) {
    rows.push_back({std::to_string(replayed.batch), Shown(EndOf(replayed), options)});
  }
  return text + '\n' + MarkdownTable({"batch", "on the card"}, "rl", rows) +
         Notes(MaxBatchNotes(answer), options);
}

std::string ToCsv(const VerifiedMaxBatch& answer) {
  std::string text = CsvLine({"batch", "runs", "fails_in_step", "asked_bytes", "free_bytes"});
  for (const ReplayedBatch& replayed : answer.replayed) {
    std::vector<std::string> fields = {std::to_string(replayed.batch),
                                       replayed.failure ? "false" : "true", "", "", ""};
    if (replayed.failure) {
      fields[2] = std::to_string(replayed.failure->failure.step);
      fields[3] = std::to_string(replayed.failure->failure.asked_bytes);
      fields[4] = std::to_string(replayed.failure->free_bytes);
    }
    text += CsvLine(fields);
  }
  return text;
}

}  // namespace onnxfit

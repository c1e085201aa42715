#include "estimator/report/verify_text.h"

#include <fmt/format.h>

#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/report/layout.h"
#include "estimator/report/page.h"
#include "estimator/report/settings_text.h"
#include "estimator/report/verdict_text.h"
#include "estimator/report/verify_sentences.h"

namespace onnxfit {
namespace {

std::string_view PaintOf(Proof proof) {
  constexpr std::string_view kPaints[] = {kGreen, kRed, kRed, kYellow};
  return kPaints[static_cast<size_t>(proof)];
}

// "PASS on NVIDIA H200: …", the card's name cut to what 80 columns leave it.
std::string FirstLine(const std::string& word, std::string_view paint, const std::string& card,
                      const std::string& answer, const TextOptions& options) {
  const auto line = [&](std::string_view begin, std::string_view name) {
    return fmt::format("{} on {}: {}", begin, name, answer);
  };
  const std::string name = NameBeside(line(word, ""), card, options);
  return line(Painted({word, options.color ? paint : ""}), name) + '\n';
}

std::string ModelLine(const std::string& model, const std::string& settings,
                      const TextOptions& options) {
  return Wrap("", Clean(fmt::format("{}, {}", model, settings), options.ascii));
}

std::string Terms(const Verification& verification, const TextOptions& options) {
  if (verification.rows.empty()) return "";
  std::vector<std::vector<Cell>> rows = {
      {{"beyond the context"}, {"predicted"}, {"measured"}, {"difference"}}};
  for (const ProofRow& row : verification.rows) {
    const std::string_view paint = options.color && !row.holds ? kRed : "";
    rows.push_back({{row.what},
                    {FormatBytes(row.predicted_bytes)},
                    {FormatBytes(row.measured_bytes)},
                    {DifferenceText(row), paint}});
  }
  return '\n' + Table(rows, "lrrr", "  ");
}

std::string Bullets(const std::vector<std::string>& notes, const TextOptions& options) {
  std::string text = "\n";
  for (const std::string& note : notes) text += Wrap("  - ", Clean(note, options.ascii));
  return text;
}

}  // namespace

std::string ToText(const Verification& verification, const TextOptions& options) {
  const Estimate& estimate = verification.estimate;
  const std::string head = FirstLine(ProofWord(verification.proof), PaintOf(verification.proof),
                                     verification.gpu.name, ProofText(verification), options);
  if (options.quiet) return head;
  return TrimLines(head + ModelLine(estimate.model.path, SettingsText(estimate), options) +
                   Terms(verification, options) + Bullets(ProofNotes(verification), options));
}

std::string ToText(const VerifiedMaxBatch& answer, const TextOptions& options) {
  const std::string head =
      FirstLine(fmt::format("batch {}", answer.batch), answer.batch > 0 ? kGreen : kRed,
                answer.gpu.name, MaxBatchText(answer), options);
  if (options.quiet) return head;
  return TrimLines(head + ModelLine(answer.model, RunText(answer.settings, answer.dims), options) +
                   Bullets(MaxBatchNotes(answer), options));
}

}  // namespace onnxfit

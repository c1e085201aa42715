#include "estimator/report/tried_batches.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "estimator/base/bytes.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/sentences.h"

namespace onnxfit {

std::string BatchHeadline(const TriedBatches& found, const std::string& cards,
                          const JudgedTarget& judged, const TextOptions& options) {
  const Verdict verdict = judged.judgement.verdict;
  const std::string word =
      Painted({VerdictWord(verdict), options.color ? VerdictPaint(verdict) : ""});
  const std::string used = UsedText(judged.judgement, GlyphsOf(options));
  const std::string names = Clean(cards, options.ascii);
  if (found.batch == 0) {
    return fmt::format("no batch on {}: {} is {}, {}\n", names, found.told(), word, used);
  }
  const std::string fits = verdict == Verdict::kTight && found.fits_batch > 0
                               ? fmt::format("; {} FITS", found.fits_batch)
                               : "";
  return fmt::format("batch {} on {}: {}, {}{}\n", found.batch, names, word, used, fits);
}

std::string TriedText(const TriedBatches& found) {
  std::vector<std::string> tried;
  for (const TriedBatch& row : found.tried) {
    const bool fits = row.verdict == Verdict::kFits;
    tried.push_back(fits ? fmt::format("{}", row.batch)
                         : fmt::format("{} ({})", row.batch, VerdictWord(row.verdict)));
  }
  return fmt::format("{}", fmt::join(tried, ", "));
}

std::vector<std::string> SearchSentences(const TriedBatches& found, bool is_tight) {
  std::vector<std::string> sentences;
  if (found.fails && found.batch > 0) {
    sentences.push_back(fmt::format("{} does not run", *found.fails));
    if (*found.fails - found.batch > found.multiple_of) {
      sentences.back() += "; what lies between was not tried";
    }
  }
  const bool is_left = found.does_not_fit && found.fits_batch > 0 &&
                       *found.does_not_fit - found.fits_batch > found.multiple_of;
  if (is_tight && is_left) {
    sentences.push_back(fmt::format("{} FITS, {} does not; what lies between was not tried",
                                    found.fits_batch, *found.does_not_fit));
  }
  if (is_tight && found.fits_batch == 0) sentences.emplace_back("no batch that was run FITS");
  if (found.is_limited) sentences.emplace_back("larger ones may run, too: none was asked for");
  if (found.per_sample_bytes > 0 && found.fixed_bytes > 0) {
    sentences.push_back(fmt::format("it takes about {} + {} a sample",
                                    FormatBytes(found.fixed_bytes),
                                    FormatBytes(found.per_sample_bytes)));
  }
  return sentences;
}

std::string TriedBullets(const TriedBatches& found, const JudgedTarget& judged) {
  std::string text = Wrap("  - ", "run: " + TriedText(found));
  const bool is_tight = judged.judgement.verdict == Verdict::kTight;
  for (const std::string& sentence : SearchSentences(found, is_tight)) {
    text += Wrap("  - ", sentence);
  }
  return text;
}

void PutSearch(const TriedBatches& found, Json& json) {
  json["max_batch"] = found.batch;
  json["max_batch_fits"] = found.fits_batch;
  json["limited"] = found.is_limited;
  if (found.fails) json["fails"] = *found.fails;
  if (found.per_sample_bytes > 0) {
    json["fixed_bytes"] = found.fixed_bytes;
    json["per_sample_bytes"] = found.per_sample_bytes;
  }
  for (const TriedBatch& row : found.tried) {
    json["tried"].push_back(
        {{"batch", row.batch}, {"verdict", ToString(row.verdict)}, {"used_bytes", row.used_bytes}});
  }
}

}  // namespace onnxfit

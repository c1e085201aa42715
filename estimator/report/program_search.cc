#include "estimator/report/program_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "estimator/base/bytes.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/layout.h"
#include "estimator/report/program_run_parts.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

std::string CardsText(const ProgramRun& run) {
  std::vector<std::string> names;
  for (const JudgedTarget& judged : run.cards) names.push_back(judged.target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// "batch 96 on t4: FITS, 13.8 GiB of 14.6 GiB, 94.6%"
std::string SearchHeadline(const ProgramSearch& search, const TextOptions& options) {
  const JudgedTarget& judged = search.largest.cards[0];
  const Verdict verdict = judged.judgement.verdict;
  const std::string word =
      Painted({VerdictWord(verdict), options.color ? VerdictPaint(verdict) : ""});
  const std::string used = UsedText(judged.judgement, GlyphsOf(options));
  const std::string cards = Clean(CardsText(search.largest), options.ascii);
  if (search.batch == 0) {
    return fmt::format("no batch on {}: {} is {}, {}\n", cards, search.tried[0].batch, word, used);
  }
  const std::string fits = verdict == Verdict::kTight && search.fits_batch > 0
                               ? fmt::format("; {} FITS", search.fits_batch)
                               : "";
  return fmt::format("batch {} on {}: {}, {}{}\n", search.batch, cards, word, used, fits);
}

std::string TriedText(const ProgramSearch& search) {
  std::vector<std::string> tried;
  for (const TriedBatch& row : search.tried) {
    const bool fits = row.verdict == Verdict::kFits;
    tried.push_back(fits ? fmt::format("{}", row.batch)
                         : fmt::format("{} ({})", row.batch, VerdictWord(row.verdict)));
  }
  return fmt::format("run, up to {} steps each: {}", search.steps, fmt::join(tried, ", "));
}

}  // namespace

std::vector<std::string> SearchSentences(const ProgramSearch& search) {
  std::vector<std::string> sentences;
  if (search.fails && search.batch > 0) {
    sentences.push_back(fmt::format("{} does not run", *search.fails));
    if (*search.fails - search.batch > search.multiple_of) {
      sentences.back() += "; what lies between was not tried";
    }
  }
  const bool is_tight = std::ranges::any_of(search.largest.cards, [](const JudgedTarget& judged) {
    return judged.judgement.verdict == Verdict::kTight;
  });
  const bool is_left = search.does_not_fit && search.fits_batch > 0 &&
                       *search.does_not_fit - search.fits_batch > search.multiple_of;
  if (is_tight && is_left) {
    sentences.push_back(fmt::format("{} FITS, {} does not; what lies between was not tried",
                                    search.fits_batch, *search.does_not_fit));
  }
  if (is_tight && search.fits_batch == 0) sentences.emplace_back("no batch that was run FITS");
  if (search.is_limited) sentences.emplace_back("larger ones may run, too: none was asked for");
  if (search.per_sample_bytes > 0 && search.fixed_bytes > 0) {
    sentences.push_back(fmt::format("the device has about {} + {} a sample",
                                    FormatBytes(search.fixed_bytes),
                                    FormatBytes(search.per_sample_bytes)));
  }
  return sentences;
}

namespace {

Json SearchJson(const ProgramSearch& search) {
  Json json = {{"gpu", CardsText(search.largest)},
               {"max_batch", search.batch},
               {"max_batch_fits", search.fits_batch},
               {"limited", search.is_limited},
               {"steps", search.steps}};
  if (search.fails) json["fails"] = *search.fails;
  if (search.per_sample_bytes > 0) {
    json["fixed_bytes"] = search.fixed_bytes;
    json["per_sample_bytes"] = search.per_sample_bytes;
  }
  for (const TriedBatch& row : search.tried) {
    json["tried"].push_back(
        {{"batch", row.batch}, {"verdict", ToString(row.verdict)}, {"used_bytes", row.used_bytes}});
  }
  json["run"] = RunJson(search.largest);
  return json;
}

}  // namespace

std::string ToText(const std::vector<ProgramSearch>& searches, const TextOptions& options) {
  std::string text;
  for (const ProgramSearch& search : searches) text += SearchHeadline(search, options);
  if (options.quiet) return text;
  for (const ProgramSearch& search : searches) {
    if (searches.size() > 1) {
      text += fmt::format("\nOn {}\n", Clean(CardsText(search.largest), options.ascii));
    }
    text += Wrap("  - ", TriedText(search));
    for (const std::string& sentence : SearchSentences(search)) text += Wrap("  - ", sentence);
    if (searches.size() == 1) {
      text += RunReasons(search.largest, options) + RunDetails(search.largest, options);
    }
  }
  return TrimLines(text);
}

Json SearchesJson(const std::vector<ProgramSearch>& searches, const JsonOptions& options) {
  Json json = {{"schema", 1},
               {"version", options.version},
               {"basis", "run"},
               {"text", ToText(searches)},
               {"command", searches[0].command}};
  for (const ProgramSearch& search : searches) json["targets"].push_back(SearchJson(search));
  return json;
}

std::string ToJson(const std::vector<ProgramSearch>& searches, const JsonOptions& options) {
  return Dumped(SearchesJson(searches, options)) + '\n';
}

}  // namespace onnxfit

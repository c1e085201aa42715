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

}  // namespace

std::vector<std::string> SearchSentences(const ProgramSearch& search) {
  const bool is_tight = std::ranges::any_of(search.largest.cards, [](const JudgedTarget& judged) {
    return judged.judgement.verdict == Verdict::kTight;
  });
  std::vector<std::string> sentences = SearchSentences(search.found, is_tight);
  if (search.is_of_ram) {
    sentences.push_back(
        fmt::format("{} has no room in the host's RAM, and has on the card", *search.found.fails));
  }
  return sentences;
}

namespace {

Json SearchJson(const ProgramSearch& search) {
  Json json = {{"gpu", CardsText(search.largest)}};
  PutSearch(search.found, json);
  if (search.is_of_ram) json["fails_for_ram"] = true;
  json["steps"] = search.steps;
  json["run"] = RunJson(search.largest);
  return json;
}

}  // namespace

std::string ToText(const std::vector<ProgramSearch>& searches, const TextOptions& options) {
  std::string text;
  for (const ProgramSearch& search : searches) {
    text +=
        BatchHeadline(search.found, CardsText(search.largest), search.largest.cards[0], options);
  }
  if (options.quiet) return text;
  for (const ProgramSearch& search : searches) {
    if (searches.size() > 1) {
      text += fmt::format("\nOn {}\n", Clean(CardsText(search.largest), options.ascii));
    }
    text += Wrap(
        "  - ", fmt::format("run, up to {} steps each: {}", search.steps, TriedText(search.found)));
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

#include "cli/program_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <ostream>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/report/sentences.h"

namespace onnxfit {
namespace {

constexpr std::string_view kPlaceholder = "{}";
constexpr int64_t kStepsOfSearch = kVerdictSteps;  // where nobody says

std::vector<std::string> WithBatch(const std::vector<std::string>& words, int64_t batch) {
  std::vector<std::string> filled;
  for (std::string word : words) {
    for (size_t at = 0; (at = word.find(kPlaceholder, at)) != std::string::npos;) {
      const std::string number = std::to_string(batch);
      word.replace(at, kPlaceholder.size(), number);
      at += number.size();
    }
    filled.push_back(std::move(word));
  }
  return filled;
}

void CheckPlaceholder(const std::vector<std::string>& words) {
  const auto has_place = [](const std::string& word) {
    return word.find(kPlaceholder) != std::string::npos;
  };
  if (std::ranges::any_of(words, has_place)) return;
  throw Error({.where = "--max-batch",
               .text = "expected {} in the program's words, where the batch stands, found none",
               .hint = "onnxfit run --max-batch 8:512 -- python train.py --batch-size {}"});
}

// The run of one batch.  Throws where it ends for another reason than memory.
ProgramRun RunBatch(const ProgramTrial& trial, int64_t batch, std::ostream& err) {
  ProgramTrial filled = trial;
  filled.command = WithBatch(trial.command, batch);
  ProgramRun run = RunTrial(filled, err);
  if (!run.failed) return run;
  throw Error(
      {.where = fmt::format("batch {}", batch),
       .text = fmt::format("the program ended with {}, and not for want of memory", run.exit_code),
       .hint = "what it says itself, above"});
}

const JudgedTarget& WorstOf(const ProgramRun& run) {
  const auto worse = [](const JudgedTarget& a, const JudgedTarget& b) {
    return std::pair(a.judgement.verdict, a.judgement.share()) <
           std::pair(b.judgement.verdict, b.judgement.share());
  };
  return *std::ranges::max_element(run.cards, worse);
}

}  // namespace

TrialLimits LimitsOf(const Options& options) {
  return {.least = options.program.least_batch,
          .most = options.program.most_batch,
          .multiple_of = options.limits.multiple_of,
          .is_strict = options.is_strict};
}

ProgramSearch SearchBatch(ProgramTrial trial, const TrialLimits& limits, std::ostream* told,
                          std::ostream& err) {
  CheckPlaceholder(trial.command);
  if (trial.most_steps == 0) trial.most_steps = kStepsOfSearch;
  trial.is_silent = true;
  std::map<int64_t, ProgramRun> runs;
  const auto run = [&](int64_t batch) {
    const ProgramRun& one = runs[batch] = RunBatch(trial, batch, err);
    const JudgedTarget worst = WorstOf(one);
    const ProgramRun shown = {.cards = {worst}, .host = one.host};
    if (told != nullptr) *told << fmt::format("batch {}: ", batch) << HeadlinesOf(shown, {});
    return worst;
  };
  const TriedBatches found = TryBatches(limits, run);
  return {.command = trial.command,
          .steps = trial.most_steps,
          .found = found,
          .largest = runs.at(found.told()),
          .is_of_ram = found.fails && runs.at(*found.fails).host.verdict == Verdict::kOom};
}

}  // namespace onnxfit

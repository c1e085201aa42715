#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/recipe.h"
#include "cli/targets.h"
#include "estimator/advise/advice.h"
#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/sweep.h"
#include "estimator/report/max_batch.h"

namespace onnxfit {
namespace {

std::string ReportOf(const MaxBatchAnswer& answer, const Options& options,
                     const std::ostream& out) {
  switch (options.format) {
    case Format::kText:
      return ToText(answer, WithColor(options, out));
    case Format::kJson:
      return ToJson(answer, {.version = ONNXFIT_VERSION, .rows = options.text.rows});
    case Format::kMarkdown:
      return ToMarkdown(answer);
    case Format::kCsv:
      return ToCsv(answer);
  }
  return "";
}

// No more than is printed.
BatchDetail DetailOf(const Options& options) {
  if (options.format == Format::kCsv) return BatchDetail::kHeadline;
  const bool is_line = options.text.quiet && options.format == Format::kText;
  return is_line ? BatchDetail::kHeadline : BatchDetail::kAround;
}

// Where nothing runs: the first of what FITS then, else of what runs, to be copied.
void AddRecipe(const Options& options, MaxBatchAnswer& answer) {
  if (answer.rows.size() != 1 || answer.rows[0].found.batch > 0) return;
  const Advice* chosen = nullptr;
  for (const Advice& advice : answer.rows[0].advice) {
    if (!advice.judgement || advice.max_batch.value_or(0) == 0) continue;
    const bool fits = advice.judgement->verdict == Verdict::kFits;
    if (chosen == nullptr || fits) chosen = &advice;
    if (fits) break;
  }
  if (chosen != nullptr) answer.rows[0].recipe = RecipeOf(options, *chosen);
}

// "--batch 2" is no flag of this command, which asks for the batch: the file holds for no other.
Error WithEstimate(const Error& error, const std::string& model) {
  Error::Parts parts = error.parts();
  parts.hint = fmt::format("onnxfit estimate {} {}", ShellWord(model), parts.hint);
  return Error(std::move(parts));
}

// What takes longer than people wait without a word shows a line on a terminal.
MaxBatchAnswer Answer(const Options& given, BatchLimits limits, std::ostream& err) {
  Progress progress(err, std::chrono::seconds(1));
  limits.progress = [&](const std::string& text) { progress.Show("max-batch: " + text); };
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  const Study study(graph);
  const std::vector<EstimateRequest> requests = Combinations(options.request, options.sweep);
  MaxBatchAnswer answer = AnswerMaxBatch(study, requests, limits);
  const bool shows_advice = !options.text.quiet && options.format != Format::kCsv;
  if (shows_advice) AddAdvice(study, requests[0], limits, answer);
  AddRecipe(options, answer);
  answer.is_of_ranks = requests.size() == 1 && options.targets.of_ranks > 0 &&
                       options.targets.of_ranks == answer.rows.size();
  return answer;
}

}  // namespace

int RunMaxBatch(const Options& options, std::ostream& out, std::ostream& err) {
  if (options.generation.is_asked) return RunMaxBatchOfGeneration(options, out, err);
  if (options.lengths) return RunMaxBatchOverLengths(options, out, err);
  if (!options.solve.empty()) return RunSolve(options, out, err);
  if (options.runtime.runtime != Runtime::kTorch) return RunMaxBatchOnRuntime(options, out, err);
  CheckOutput(options, options.model, "the model");
  if (options.request.targets.empty()) {
    throw Error({.where = "--gpu",
                 .text = "expected a card, found none",
                 .hint = "--gpu t4, --memory 8GiB or --all-gpus"});
  }
  BatchLimits limits = options.limits;
  if (limits.most.value_or(limits.multiple_of) < limits.multiple_of) {
    throw Error({.where = "--max",
                 .text = fmt::format("expected at least {}, the least batch of --multiple-of, "
                                     "found {}",
                                     limits.multiple_of, *limits.most)});
  }
  limits.is_strict = options.is_strict;
  limits.detail = DetailOf(options);
  limits.tells_largest = options.format == Format::kJson;  // which says so since schema 1
  const MaxBatchAnswer answer = [&] {
    try {
      return Answer(options, limits, err);
    } catch (const Error& error) {
      if (!error.parts().hint.starts_with("--batch ")) throw;
      throw WithEstimate(error, options.model);
    }
  }();
  WriteReport(ReportOf(answer, options, out), options, out);
  std::vector<Judgement> judgements;
  for (const MaxBatchRow& row : answer.rows) {
    if (!row.found.target.is_listed) judgements.push_back(row.found.judgement);
  }
  return ExitCodeOf(judgements, options);
}

}  // namespace onnxfit

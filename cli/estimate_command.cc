// `onnxfit estimate`: of a file, and of a model that is given by its numbers instead.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/advise/advice.h"
#include "estimator/base/error.h"
#include "estimator/fit/closed_form.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/sweep.h"
#include "estimator/fit/worlds.h"
#include "estimator/onnx/shapes.h"
#include "estimator/picture/page.h"
#include "estimator/picture/run_files.h"
#include "estimator/picture/terminal.h"
#include "estimator/report/estimate.h"

namespace onnxfit {
namespace {

// Of an Estimate or a SweepAnswer.
template <typename Answer>
std::string ReportOf(const Answer& answer, const Options& options, const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  if (options.format == Format::kJson) {
    return ToJson(answer, {.version = ONNXFIT_VERSION, .rows = text.rows});
  }
  if (options.format == Format::kCsv) {
    return ToCsv(answer, {.ascii = text.ascii, .rows = text.rows});
  }
  return options.format == Format::kMarkdown ? ToMarkdown(answer, text) : ToText(answer, text);
}

// JSON alone shows the tensors of a table's rows.
SweepAnswer TableOf(const Graph& graph, const Options& options, Progress& progress) {
  const size_t largest = options.format == Format::kJson ? options.text.rows : 0;
  const int64_t all = CountCombinations(options.sweep).value_or(0);
  return RunSweep(graph, options.request, options.sweep, largest, [&](size_t done) {
    progress.Show(fmt::format("estimate: {} of {} runs", done, all));
  });
}

// What each of several numbers of ranks has, where that is asked.
std::vector<WorldOutcome> WorldsOf(const Study& study, const EstimateRequest& request,
                                   const Options& options, Progress& progress) {
  if (!options.finds_world) return {};
  progress.Show("estimate: trying numbers of ranks");
  return JudgeWorlds(study, request, request.targets.at(0));
}

// What is told of it while it takes longer than people wait without a word.
Estimate EstimateOf(const Study& study, const EstimateRequest& request, const Options& options,
                    Progress& progress) {
  progress.Show("estimate: following the run, allocation by allocation");
  Estimate estimate = MakeEstimate(study, request);
  if (options.text.quiet || !request.why.empty()) return estimate;
  progress.Show("estimate: trying what would make it fit");
  AddAdvice(study, request, estimate);
  return estimate;
}

EstimateRequest WithPictures(const Options& options) {
  EstimateRequest request = options.request;
  if (options.timeline) request.curve_points = kTerminalPoints;
  if (options.file_format == FileFormat::kSvg) request.curve_points = kPagePoints;
  const bool is_page = options.format == Format::kText || options.format == Format::kMarkdown;
  request.modules = is_page || options.tree || options.file_format == FileFormat::kTreemap;
  return request;
}

std::string FileOf(const Study& study, const EstimateRequest& request, const Estimate& estimate,
                   const Options& options) {
  switch (*options.file_format) {
    case FileFormat::kSvg:
      return ToSvg(estimate);
    case FileFormat::kPerfetto:
      return ToPerfetto(*study.Predicted(request));
    case FileFormat::kMemorySnapshot:
      return ToMemorySnapshot(*study.Predicted(request));
    case FileFormat::kTreemap:
      return ToFoldedStacks(estimate);
  }
  return "";
}

// What pages for people show below all else: behind the first line alone, too.
std::string PicturesOf(const Estimate& estimate, const Options& options, const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  const std::string pictures =
      (options.tree ? TreeText(estimate, text) : "") + TimelineText(estimate, text);
  if (options.format == Format::kText) return pictures;
  const bool is_markdown = options.format == Format::kMarkdown && !pictures.empty();
  return is_markdown ? "\n```text" + pictures + "```\n" : "";
}

// Of all rows that have an answer.
std::vector<JudgedTarget> TargetsOf(const SweepAnswer& answer) {
  std::vector<JudgedTarget> targets;
  for (const SweepRow& row : answer.rows) {
    if (!row.estimate) continue;
    targets.insert(targets.end(), row.estimate->targets.begin(), row.estimate->targets.end());
  }
  return targets;
}

}  // namespace

int RunEstimate(const Options& given, std::ostream& out, std::ostream& err) {
  if (given.generation.is_asked) return RunEstimateOfGeneration(given, out, err);
  if (given.lengths) return RunEstimateOverLengths(given, out, err);
  if (given.numbers.any()) return RunClosedForm(given, out);
  if (given.runtime.runtime != Runtime::kTorch) return RunEstimateOnRuntime(given, out, err);
  CheckOutput(given, given.model, "the model");
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("estimate: reading the model");
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  if (!options.sweep.empty()) {
    const SweepAnswer answer = TableOf(graph, options, progress);
    progress.End();
    WriteReport(ReportOf(answer, options, out), options, out);
    return ExitCodeOf(TargetsOf(answer), options);
  }
  const Study study(graph);
  EstimateRequest request = WithPictures(options);
  std::vector<WorldOutcome> worlds = WorldsOf(study, request, options, progress);
  if (!worlds.empty()) request.settings.ranks.world = WorldToTake(worlds);
  Estimate estimate = EstimateOf(study, request, options, progress);
  estimate.worlds = std::move(worlds);
  progress.End();
  WriteReport(options.file_format
                  ? FileOf(study, request, estimate, options)
                  : ReportOf(estimate, options, out) + PicturesOf(estimate, options, out),
              options, out);
  return ExitCodeOf(estimate.targets, options);
}

int RunClosedForm(const Options& options, std::ostream& out) {
  CheckOutput(options, "", "");
  const NumbersOptions& numbers = options.numbers;
  const ClosedForm form = MakeClosedForm({.parameters = *numbers.parameters,
                                          .layers = *numbers.layers,
                                          .hidden = *numbers.hidden,
                                          .heads = numbers.heads,
                                          .sequence = numbers.sequence,
                                          .vocabulary = numbers.vocabulary},
                                         options.request);
  WriteTextOrJson(form, options, out);
  const bool holds = std::ranges::all_of(
      form.cards, [](const CardCount& count) { return !count.is_asked || count.cards == 1; });
  return holds || options.exit_zero ? kExitDone : kExitTargetFails;
}

}  // namespace onnxfit

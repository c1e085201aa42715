// `onnxfit estimate`: of a file, and of a model that is given by its numbers instead.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "cli/values.h"
#include "estimator/advise/advice.h"
#include "estimator/base/error.h"
#include "estimator/fit/closed_form.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/sweep.h"
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
SweepAnswer TableOf(const Graph& graph, const Options& options) {
  const size_t largest = options.format == Format::kJson ? options.text.rows : 0;
  return RunSweep(graph, options.request, options.sweep, largest);
}

EstimateRequest WithPictures(const Options& options) {
  EstimateRequest request = options.request;
  if (options.timeline) request.curve_points = kTerminalPoints;
  if (options.file_format == FileFormat::kSvg) request.curve_points = kPagePoints;
  const bool is_page = options.format == Format::kText || options.format == Format::kMarkdown;
  request.modules = is_page || options.tree || options.file_format == FileFormat::kTreemap;
  return request;
}

std::string FileOf(const Study& study, const Estimate& estimate, const Options& options) {
  switch (*options.file_format) {
    case FileFormat::kSvg:
      return ToSvg(estimate);
    case FileFormat::kPerfetto:
      return ToPerfetto(*study.Predicted(options.request));
    case FileFormat::kMemorySnapshot:
      return ToMemorySnapshot(*study.Predicted(options.request));
    case FileFormat::kTreemap:
      return ToFoldedStacks(estimate);
  }
  return "";
}

// What pages for people show below all else: behind the first line alone, too.
std::string PicturesOf(const Estimate& estimate, const Options& options, const std::ostream& out) {
  if (options.format != Format::kText) return "";
  const TextOptions text = WithColor(options, out);
  return (options.tree ? TreeText(estimate, text) : "") + TimelineText(estimate, text);
}

std::vector<Judgement> JudgementsOf(const Estimate& estimate) {
  std::vector<Judgement> judgements;
  for (const JudgedTarget& judged : estimate.targets) judgements.push_back(judged.judgement);
  return judgements;
}

// Of all rows that have an answer.
std::vector<Judgement> JudgementsOf(const SweepAnswer& answer) {
  std::vector<Judgement> judgements;
  for (const SweepRow& row : answer.rows) {
    if (!row.estimate) continue;
    for (const Judgement& judgement : JudgementsOf(*row.estimate)) judgements.push_back(judgement);
  }
  return judgements;
}

}  // namespace

int RunEstimate(const Options& options, std::ostream& out) {
  if (options.numbers.any()) return RunClosedForm(options, out);
  CheckOutput(options, options.model, "the model");
  const Graph graph = LoadModel(options.model);
  if (!options.sweep.empty()) {
    const SweepAnswer answer = TableOf(graph, options);
    WriteReport(ReportOf(answer, options, out), options, out);
    return ExitCodeOf(JudgementsOf(answer), options);
  }
  const Study study(graph);
  const EstimateRequest request = WithPictures(options);
  Estimate estimate = MakeEstimate(study, request);
  if (!options.text.quiet && request.why.empty()) AddAdvice(study, request, estimate);
  WriteReport(options.file_format
                  ? FileOf(study, estimate, options)
                  : ReportOf(estimate, options, out) + PicturesOf(estimate, options, out),
              options, out);
  return ExitCodeOf(JudgementsOf(estimate), options);
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
  WriteReport(options.format == Format::kJson ? ToJson(form, {.version = ONNXFIT_VERSION})
                                              : ToText(form, WithColor(options, out)),
              options, out);
  const bool holds = std::ranges::all_of(
      form.cards, [](const CardCount& count) { return !count.is_asked || count.cards == 1; });
  return holds || options.exit_zero ? kExitDone : kExitTargetFails;
}

}  // namespace onnxfit

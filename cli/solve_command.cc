// `onnxfit max-batch` with --solve.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <vector>

#include "cli/asked_of_file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/targets.h"
#include "estimator/base/error.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/solve.h"
#include "estimator/fit/sweep.h"
#include "estimator/report/solve.h"

namespace onnxfit {
namespace {

void CheckSolve(const Options& options) {
  const auto refuse = [](const std::string& where, const std::string& text,
                         const std::string& hint) {
    throw Error({.where = where, .text = text, .hint = hint});
  };
  if (options.request.targets.empty())
    refuse("--gpu", "expected a card, found none", "--gpu t4, or --memory 8GiB");
  if (options.runtime.runtime != Runtime::kTorch)
    refuse("--solve", "expected a run in PyTorch, found --runtime", "");
  if (options.format != Format::kText && options.format != Format::kJson)
    refuse("--format", "expected text or json beside --solve", "--format json");
}

SolveOptions SolveOptionsOf(const Options& options) {
  SolveOptions solve = {.name = options.solve, .most = options.limits.most};
  const bool is_given = std::ranges::find(options.given, "--multiple-of") != options.given.end();
  if (is_given) solve.multiple_of = options.limits.multiple_of;
  solve.is_strict = options.is_strict;
  return solve;
}

SolveAnswer AnswerOf(const Options& given, std::ostream& err) {
  Progress progress(err, std::chrono::seconds(1));
  progress.Show("max-batch: reading the model");
  const Graph graph = LoadModel(given.model);
  const Options options = AskedOf(graph, given);
  SolveOptions solve = SolveOptionsOf(options);
  solve.progress = [&](const std::string& text) { progress.Show("max-batch: " + text); };
  return SolveSize(Study(graph), Combinations(options.request, options.sweep), solve);
}

}  // namespace

int RunSolve(const Options& options, std::ostream& out, std::ostream& err) {
  CheckSolve(options);
  CheckOutput(options, options.model, "the model");
  const SolveAnswer answer = AnswerOf(options, err);
  WriteTextOrJson(answer, options, out);
  std::vector<Judgement> judgements;
  for (const Solved& row : answer.rows) {
    if (!row.target.is_listed) judgements.push_back(row.runs.judgement);
  }
  return ExitCodeOf(judgements, options);
}

}  // namespace onnxfit

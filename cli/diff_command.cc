#include "cli/diff_command.h"

#include <utility>
#include <vector>

#include "cli/compared.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "estimator/fit/diff.h"
#include "estimator/report/diff_csv.h"
#include "estimator/report/diff_json.h"
#include "estimator/report/diff_markdown.h"
#include "estimator/report/diff_text.h"

namespace onnxfit {
namespace {

std::string ReportOf(const Diff& diff, const Options& options, const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  if (options.format == Format::kJson) return ToJson(diff, {.version = ONNXFIT_VERSION});
  if (options.format == Format::kCsv) return ToCsv(diff);
  return options.format == Format::kMarkdown ? ToMarkdown(diff, text) : ToText(diff, text);
}

// The cards' verdicts, where both sides have them.
int ExitCodeOf(const Diff& diff, const Options& options) {
  std::vector<Judgement> judgements;
  for (const JudgedTarget& judged : diff.after) judgements.push_back(judged.judgement);
  const int code = ExitCodeOf(judgements, options);
  return diff.grew_too_much() && !options.exit_zero ? kExitTargetFails : code;
}

}  // namespace

int RunDiff(const Options& options, std::ostream& out, std::string& reading) {
  CheckOutput(options, options.model, "the model");
  EstimateRequest request = options.request;
  request.wants_range = false;
  reading = options.old_model;
  Side before = ReadSide(options.old_model, request);
  reading = options.model;
  Side after = ReadSide(options.model, request);
  Diff diff = {.comparison = Compare(before.snapshot, after.snapshot),
               .fail_above = options.fail_above};
  if (before.estimate && after.estimate) {
    diff.before = std::move(before.estimate->targets);
    diff.after = std::move(after.estimate->targets);
  }
  WriteReport(ReportOf(diff, options, out), options, out);
  return ExitCodeOf(diff, options);
}

}  // namespace onnxfit

#include "cli/diff_command.h"

#include <utility>
#include <vector>

#include "cli/compared.h"
#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/settings_of_report.h"
#include "cli/shared_sizes.h"
#include "cli/targets.h"
#include "estimator/fit/diff.h"
#include "estimator/report/diff.h"

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

// A model beside a report is asked the same; two models what the flags say.
AskedAlike RequestFor(const Loaded& before, const Loaded& after, const Options& options) {
  AskedAlike alike = {.request = options.request};
  const Loaded* report = before.report && after.graph ? &before : nullptr;
  if (after.report && before.graph) report = &after;
  if (report != nullptr) alike = AskAsReport(*report->report, options);
  alike.request.wants_range = false;
  if (before.graph && after.graph) {
    alike.request.binding = BindingForBoth(alike.request.binding, {before.name, &*before.graph},
                                           {after.name, &*after.graph});
  }
  return alike;
}

}  // namespace

int RunDiff(const Options& options, std::ostream& out, std::string& reading) {
  CheckOutput(options, options.model, "the model");
  reading = options.old_model;
  const Loaded old_side = LoadSide(options.old_model);
  reading = options.model;
  const Loaded new_side = LoadSide(options.model);
  reading.clear();  // a name is of both
  const AskedAlike alike = RequestFor(old_side, new_side, options);
  reading = options.old_model;
  Side before = AnswerSide(old_side, alike.request);
  reading = options.model;
  Side after = AnswerSide(new_side, alike.request);
  Diff diff = {.comparison = Compare(before.snapshot, after.snapshot),
               .fail_above = options.fail_above,
               .taken = alike.flags};
  if (before.estimate && after.estimate) {
    diff.before = std::move(before.estimate->targets);
    diff.after = std::move(after.estimate->targets);
  }
  WriteReport(ReportOf(diff, options, out), options, out);
  return ExitCodeOf(diff, options);
}

}  // namespace onnxfit

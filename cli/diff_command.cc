// `onnxfit diff`: what grew between two answers.
#include "cli/commands.h"
#include "cli/compare_sides.h"
#include "cli/output.h"
#include "cli/snapshots.h"
#include "estimator/report/diff.h"

namespace onnxfit {
namespace {

std::string ReportOf(const Diff& diff, const Options& options, const std::ostream& out) {
  const TextOptions text = WithColor(options, out);
  if (options.format == Format::kJson) return ToJson(diff, {.version = ONNXFIT_VERSION});
  if (options.format == Format::kCsv) return ToCsv(diff);
  return options.format == Format::kMarkdown ? ToMarkdown(diff, text) : ToText(diff, text);
}

}  // namespace

int RunDiff(const Options& options, std::ostream& out, std::string& reading) {
  CheckOutput(options, options.model, "the model");
  if (const auto code = DiffSnapshot(options, out, reading)) return *code;
  const ComparedSides sides = CompareSides(options, reading);
  WriteReport(ReportOf(sides.diff, options, out), options, out);
  return ExitCodeOf(sides.diff, options);
}

}  // namespace onnxfit

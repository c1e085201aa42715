#include "cli/closed_form_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/fit/closed_form.h"
#include "estimator/report/closed_form_report.h"

namespace onnxfit {
namespace {

// Numbers for GPT-3, which everybody knows.
constexpr char kExampleNumbers[] = "--params 175e9 --layers 96 --hidden 12288";

[[noreturn]] void RefuseMissing(const NumbersOptions& numbers) {
  if (numbers.layers && numbers.hidden) {
    const int64_t likely = LikelyParameters({.parameters = 0,
                                             .layers = *numbers.layers,
                                             .hidden = *numbers.hidden,
                                             .vocabulary = numbers.vocabulary});
    throw Error({.where = "--params",
                 .text = "expected beside --layers and --hidden, found none",
                 .hint = fmt::format("--params {}, which is 12 x layers x hidden^2 and the "
                                     "vocabulary",
                                     likely)});
  }
  throw Error({.where = numbers.layers ? "--hidden" : "--layers",
               .text = "expected beside --params, found none: activations follow from it",
               .hint = kExampleNumbers});
}

}  // namespace

void CheckNumbers(const Options& options) {
  const NumbersOptions& numbers = options.numbers;
  if (!numbers.any()) return;
  if (!options.model.empty()) {
    throw Error({.where = "--params",
                 .text = fmt::format("expected a MODEL file or the numbers of one, found both, {}",
                                     Quoted(options.model))});
  }
  if (!numbers.parameters || !numbers.layers || !numbers.hidden) RefuseMissing(numbers);
  if (!options.sweep.empty()) {
    throw Error(
        {.where = "--params", .text = "expected one batch, precision and optimizer, found a list"});
  }
  if (options.format == Format::kText || options.format == Format::kJson) return;
  throw Error({.where = "--format",
               .text = "expected text or json with --params",
               .hint = "--format json"});
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

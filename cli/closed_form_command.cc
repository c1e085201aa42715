#include "cli/closed_form_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/exit_codes.h"
#include "cli/output.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/fit/closed_form.h"
#include "estimator/fit/load_model.h"
#include "estimator/graph/shapes.h"
#include "estimator/report/estimate.h"

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

// --dim for the dimension of the model's file that is likely to be the length.
std::string LengthHint(const Options& options, int64_t length) {
  DimBinding binding = options.request.binding;
  binding.dims["seq"] = length;
  std::string hint = fmt::format("--dim NAME={}", length);
  try {
    const Graph graph = LoadModel(options.model);
    BindShapes(graph, binding);
    hint = fmt::format("--dim seq={}", length);
  } catch (const Error& error) {
    if (error.parts().hint.starts_with("--dim ")) hint = error.parts().hint;
  }
  return hint;
}

[[noreturn]] void RefuseBoth(const Options& options) {
  const NumbersOptions& numbers = options.numbers;
  const bool is_length = numbers.sequence && !numbers.parameters && !numbers.layers;
  if (is_length) {
    throw Error({.where = "--seq",
                 .text = fmt::format("expected with --params, which needs no file, found with {}",
                                     Quoted(options.model)),
                 .hint = LengthHint(options, *numbers.sequence)});
  }
  throw Error({.where = "--params",
               .text = fmt::format("expected a MODEL file or the numbers of one, found both, {}",
                                   Quoted(options.model))});
}

}  // namespace

void CheckNumbers(const Options& options) {
  const NumbersOptions& numbers = options.numbers;
  if (!numbers.any()) return;
  if (!options.model.empty()) RefuseBoth(options);
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

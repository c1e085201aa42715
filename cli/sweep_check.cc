#include "cli/sweep_check.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "cli/values.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// The flags whose lists make the table, each with how many values it has.
struct ListedFlag {
  std::string name;
  size_t values = 0;
};

std::vector<ListedFlag> ListedFlags(const Sweep& sweep) {
  std::vector<ListedFlag> flags = {{"--batch", sweep.batches.size()}};
  for (const SweptDim& dim : sweep.dims) {
    flags.push_back({"--dim " + Quoted(dim.name), dim.sizes.size()});
  }
  flags.push_back({"--precision", sweep.precisions.size()});
  flags.push_back({"--optimizer", sweep.optimizers.size()});
  std::erase_if(flags, [](const ListedFlag& flag) { return flag.values == 0; });
  return flags;
}

// "40 of --batch, 300 of --dim seq".
std::string ListedText(const std::vector<ListedFlag>& flags) {
  std::string text;
  for (const ListedFlag& flag : flags) {
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", flag.values, flag.name);
  }
  return text;
}

}  // namespace

void CheckSweep(const Options& options) {
  const std::vector<ListedFlag> flags = ListedFlags(options.sweep);
  if (flags.empty()) return;
  if (options.command == Command::kExplainOom || options.command == Command::kDiff ||
      options.command == Command::kVerify) {
    if (options.model.empty()) return;  // what the environment says of models
    throw Error({.where = flags[0].name,
                 .text = fmt::format("expected one value with {}, found {}",
                                     ToString(options.command), flags[0].values)});
  }
  const std::optional<int64_t> count = CountCombinations(options.sweep);
  if (!count || *count > kMostCombinations) {
    throw Error({.text = fmt::format(
                     "expected at most {} combinations, found {} ({})", kMostCombinations,
                     count ? std::to_string(*count) : "more than 2^63", ListedText(flags))});
  }
  if (!options.request.why.empty()) {
    throw Error({.where = "--why",
                 .text = fmt::format("expected one run, found a table of {} ({})", *count,
                                     ListedText(flags)),
                 .hint = "one value for " + flags[0].name});
  }
}

}  // namespace onnxfit

// What flags cannot mean together.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/options.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/fit/closed_form.h"

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

// Of those that draw beside the report, the first; "" without any.
std::string PictureFlag(const Options& options) {
  if (options.timeline) return "--timeline";
  return options.tree ? "--tree" : "";
}

// A flag that shows one run as no table can; "" without any.
std::string FlagOfOneRun(const Options& options) {
  if (options.file_format) return "--format";
  return options.request.why.empty() ? PictureFlag(options) : "--why";
}

}  // namespace

void CheckSweep(const Options& options) {
  const std::vector<ListedFlag> flags = ListedFlags(options.sweep);
  if (flags.empty()) return;
  if (options.command == Command::kExplainOom || options.command == Command::kDiff ||
      options.command == Command::kVerify || options.command == Command::kReport ||
      options.command == Command::kAnnotate) {
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
  const std::string alone = FlagOfOneRun(options);
  if (alone.empty()) return;
  throw Error(
      {.where = alone,
       .text = fmt::format("expected one run, found a table of {} ({})", *count, ListedText(flags)),
       .hint = "one value for " + flags[0].name});
}

void CheckPictures(const Options& options) {
  const std::string picture = PictureFlag(options);
  if (options.file_format && !options.request.why.empty()) {
    throw Error({.where = "--why", .text = "expected text or json, found a file for another tool"});
  }
  const bool has_place = options.format != Format::kCsv && !options.file_format;
  if (picture.empty() || has_place) return;
  throw Error({.where = picture,
               .text = "expected with text, markdown or json, found with another --format"});
}

// What follows checks a model's numbers, then the flags of verify.
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
  if (const std::string picture = PictureFlag(options); !picture.empty()) {
    throw Error({.where = picture, .text = "expected a MODEL file, found --params"});
  }
  if (options.request.settings.ranks.tensor_parallel > 1)
    throw Error({.where = "--tensor-parallel", .text = "expected a MODEL file, found --params"});
  const bool is_report = options.format == Format::kText || options.format == Format::kJson;
  if (is_report && !options.file_format) return;
  throw Error({.where = "--format",
               .text = "expected text or json with --params",
               .hint = "--format json"});
}

void CheckWorld(const Options& options) {
  if (!options.finds_world) return;
  const auto refuse = [&](std::string text, std::string hint) {
    throw Error({.where = "--world", .text = std::move(text), .hint = std::move(hint)});
  };
  if (options.command != Command::kEstimate || options.numbers.any()) {
    refuse("auto: expected with an estimate of a MODEL file, whose batch each rank takes",
           "onnxfit estimate MODEL.onnx -b N --strategy fsdp --world auto");
  }
  if (!options.sweep.empty()) refuse("auto: expected one run, found a list", "");
  const size_t cards =
      options.targets.cards.size() * std::max<size_t>(1, options.targets.sizes.size());
  const size_t targets = options.targets.cards.empty() ? options.targets.sizes.size() : cards;
  if (targets != 1 || options.targets.lists_all) {
    refuse("auto: expected one kind of card", "--gpu a100-80gb");
  }
}

void CheckVerify(const Options& options) {
  if (!options.verify.wants_max_batch || !options.request.binding.batch) return;
  throw Error({.where = "--max-batch", .text = "looks for the batch: expected no --batch"});
}

}  // namespace onnxfit

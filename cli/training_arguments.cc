// Source: transformers 5.17.0, training_args.py.
#include "cli/training_arguments.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/base/file_bytes.h"
#include "estimator/report/scalars_json.h"

namespace onnxfit {
namespace {

constexpr std::string_view kOptim = "optim";
constexpr std::string_view kNotZero = "!= 0";

// An argument of that value is the flag with `text`; "" is any value, and the same text.
struct ArgumentRow {
  std::string_view argument;
  std::string_view value;
  std::string_view flag;
  std::string_view text;
};

constexpr ArgumentRow kArguments[] = {
    {"per_device_train_batch_size", "", "--batch", ""},
    {"gradient_accumulation_steps", "", "--accumulate", ""},
    {"per_device_eval_batch_size", "", "--eval-batch", ""},
    {"eval_accumulation_steps", "", "--eval-keep", ""},
    {"bf16", "true", "--precision", "amp-bf16"},
    {"fp16", "true", "--precision", "amp-fp16"},
    {"gradient_checkpointing", "true", "--checkpoint", "auto"},
    {"gradient_checkpointing_kwargs.use_reentrant", "true", "--checkpoint-reentrant", ""},
    {"max_grad_norm", "0", "--clip-grad", "no"},
    {"max_grad_norm", "0.0", "--clip-grad", "no"},
    {"torch_compile", "true", "--compile", "inductor"},
    {"label_smoothing_factor", kNotZero, "--label-smoothing", "yes"},
    {"weight_decay", kNotZero, "--optimizer-args", "weight_decay"},
    {kOptim, "adamw_torch_fused", "--optimizer", "adamw"},
    {kOptim, "adamw_torch", "--optimizer", "adamw"},
    {kOptim, "adamw_torch", "--optimizer-impl", "foreach"},
    {kOptim, "adafactor", "--optimizer", "adafactor-transformers"},
    {kOptim, "sgd", "--optimizer", "sgd"},
    {kOptim, "adagrad", "--optimizer", "adagrad"},
    {kOptim, "rmsprop", "--optimizer", "rmsprop"},
    {kOptim, "adamw_bnb_8bit", "--optimizer", "adamw-8bit"},
    {kOptim, "adamw_8bit", "--optimizer", "adamw-8bit"},
    {kOptim, "paged_adamw_32bit", "--optimizer", "paged-adamw-32bit"},
    {kOptim, "paged_adamw_8bit", "--optimizer", "paged-adamw-8bit"},
    {kOptim, "lion_32bit", "--optimizer", "lion-32bit"},
    {kOptim, "lion_8bit", "--optimizer", "lion-8bit"},
    {kOptim, "paged_lion_32bit", "--optimizer", "paged-lion-32bit"},
    {kOptim, "paged_lion_8bit", "--optimizer", "paged-lion-8bit"},
    {kOptim, "schedule_free_adamw", "--optimizer", "schedule-free-adamw"},
};

std::map<std::string, std::string> ReadArguments(const std::string& path) {
  try {
    const FileBytes file(path, [](std::string_view) {}, {.what = "TrainingArguments as JSON"});
    return ReadScalars(file.bytes());
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.file = path;
    throw Error(parts);
  }
}

// What gradient_checkpointing_enable() is told, where it is called.
void CheckCheckpointing(const std::string& path, std::map<std::string, std::string>& arguments) {
  constexpr std::string_view kTold = "gradient_checkpointing_kwargs.";
  if (arguments["gradient_checkpointing"] != "true") {
    std::erase_if(arguments, [&](const auto& item) { return item.first.starts_with(kTold); });
  }
  const auto refuse = [&](const std::string& where, const std::string& expected,
                          const std::string& hint) {
    throw Error({.file = path,
                 .where = where,
                 .text = "expected " + expected + ", found " + arguments.at(where),
                 .hint = hint});
  };
  const auto is_other = [&](const std::string& name, std::string_view value) {
    const auto found = arguments.find(name);
    return found != arguments.end() && found->second != value;
  };
  if (is_other("gradient_checkpointing_kwargs", "")) {
    refuse("gradient_checkpointing_kwargs", "an object", "");
  }
  const std::string reentrant = std::string(kTold) + "use_reentrant";
  if (is_other(reentrant, "false") && is_other(reentrant, "true")) {
    refuse(reentrant, "true or false", "");
  }
  const std::string every = std::string(kTold) + "every_n_layers";
  if (is_other(every, "1")) {
    refuse(every, "1", "--checkpoint 'GLOB' with the names of those layers");
  }
  const std::string offload = std::string(kTold) + "offload";
  if (is_other(offload, "false")) {
    refuse(offload, "false (what is kept on the host is not known here)", "");
  }
}

// Whose ranks share the model, which is for flags to say.
void RefuseRanks(const std::string& path, const std::map<std::string, std::string>& arguments) {
  for (const auto& [name, value] : arguments) {
    const bool is_set = !value.empty() && value != "false";
    const bool is_of_ranks = name == "deepspeed" || name.starts_with("deepspeed.") ||
                             name == "fsdp" || name.starts_with("fsdp.");
    if (!is_set || !is_of_ranks) continue;
    throw Error({.file = path,
                 .where = name,
                 .text = "expected a run on one card, found " + Quoted(value),
                 .hint = "leave it out, and type --strategy fsdp --world N or zero2"});
  }
}

void SetFlag(std::string_view name, const std::string& place, std::string_view text,
             Options& options) {
  const std::vector<Flag>& flags = Flags();
  const auto flag = std::ranges::find(flags, name, &Flag::name);
  if (IsOf(*flag, options.command)) flag->set({.place = place, .text = std::string(text)}, options);
}

// Evaluation of losses alone, or none at all: its other arguments say nothing then.
void DropIdleEvaluation(std::map<std::string, std::string>& arguments) {
  constexpr std::string_view kBatch = "per_device_eval_batch_size";
  constexpr std::string_view kKept = "eval_accumulation_steps";
  const auto strategy = arguments.find("eval_strategy");
  const bool evaluates = strategy != arguments.end() && strategy->second != "no";
  if (!evaluates) arguments.erase(std::string(kBatch));
  if (!evaluates || arguments["prediction_loss_only"] == "true")
    arguments.erase(std::string(kKept));
  if (evaluates) arguments.try_emplace(std::string(kBatch), "8");
}

// Whether an argument is what a row asks for.
bool IsValue(const std::string& found, std::string_view asked) {
  if (asked.empty()) return true;
  return asked == kNotZero ? std::strtod(found.c_str(), nullptr) != 0 : found == asked;
}

void RefuseOptim(const std::string& path, const std::string& value) {
  const bool is_known = std::ranges::any_of(kArguments, [&](const ArgumentRow& row) {
    return row.argument == kOptim && row.value == value;
  });
  if (is_known) return;
  throw Error({.file = path,
               .where = std::string(kOptim),
               .text = "expected an optimizer that --optimizer knows, found " + Quoted(value)});
}

}  // namespace

void SetTrainingArguments(const Typed& typed, Options& options) {
  std::map<std::string, std::string> arguments = ReadArguments(typed.text);
  CheckCheckpointing(typed.text, arguments);
  RefuseRanks(typed.text, arguments);
  DropIdleEvaluation(arguments);
  SetFlag("--loop", typed.place, "trainer", options);
  const auto optim = arguments.find(std::string(kOptim));
  if (optim != arguments.end()) RefuseOptim(typed.text, optim->second);
  for (const ArgumentRow& row : kArguments) {
    const auto argument = arguments.find(std::string(row.argument));
    if (argument == arguments.end()) continue;
    if (!IsValue(argument->second, row.value)) continue;
    SetFlag(row.flag, argument->first, row.text.empty() ? argument->second : row.text, options);
  }
}

}  // namespace onnxfit

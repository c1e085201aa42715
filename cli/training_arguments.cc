// Source: transformers 5.17.0, training_args.py.
#include "cli/training_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
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
    // TrainingArguments compiles where a mode is told, whatever torch_compile says.
    {"torch_compile_mode", "default", "--compile", "inductor"},
    {"torch_compile_mode", "reduce-overhead", "--compile", "inductor"},
    {"torch_compile_mode", "reduce-overhead", "--cuda-graphs", "yes"},
    {"torch_compile_mode", "max-autotune-no-cudagraphs", "--compile", "inductor"},
    {"torch_compile_mode", "max-autotune", "--compile", "inductor"},
    {"torch_compile_mode", "max-autotune", "--cuda-graphs", "yes"},
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
    {kOptim, "schedule_free_sgd", "--optimizer", "schedule-free-sgd"},
    {kOptim, "ademamix", "--optimizer", "ademamix-32bit"},
    {kOptim, "ademamix_8bit", "--optimizer", "ademamix-8bit"},
    {kOptim, "paged_ademamix_32bit", "--optimizer", "paged-ademamix-32bit"},
    {kOptim, "paged_ademamix_8bit", "--optimizer", "paged-ademamix-8bit"},
    {kOptim, "rmsprop_bnb", "--optimizer", "rmsprop-32bit"},
    {kOptim, "rmsprop_bnb_32bit", "--optimizer", "rmsprop-32bit"},
    {kOptim, "rmsprop_bnb_8bit", "--optimizer", "rmsprop-8bit"},
    {kOptim, "adamw_torch_8bit", "--optimizer", "torchao-adamw-8bit"},
    // Which has half as many scales there: its blocks are of 256 elements.
    {kOptim, "adamw_torch_4bit", "--optimizer", "torchao-adamw-4bit"},
    {kOptim, "galore_adamw", "--optimizer", "galore"},
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

// What takes memory in a way that is for flags to say, or that no flag says; what an object has,
// too.  Where `of_evaluation`, it says nothing of a run without.
struct RefusedArgument {
  std::string_view argument;
  std::string_view expected;
  std::string_view hint;
  bool of_evaluation = false;
};

constexpr std::string_view kRanksHint =
    "leave it out, and type --strategy fsdp --world N, zero2 or zero3";

constexpr RefusedArgument kRefused[] = {
    {"deepspeed", "a run on one card", kRanksHint},
    {"fsdp", "a run on one card", kRanksHint},
    {"parallelism_config", "a run on one card", kRanksHint},
    {"use_cpu", "a run on a card", "leave it out"},
    {"use_liger_kernel", "false (its kernels are not known here)", "leave it out: more is taken"},
    {"neftune_noise_alpha", "none (its noise is not known here)", ""},
    {"use_cache", "false (keys and values that are kept are not known here)", ""},
    // Of TRL's SFTConfig and transformers' Seq2SeqTrainingArguments.
    {"activation_offloading", "false (what is kept on the host is not known here)",
     "leave it out: more is taken"},
    {"eval_on_start", "false (evaluation before the first step is not known here)", ""},
    {"predict_with_generate", "false (generation is not known here)", "", true},
    {"include_for_metrics", "none (inputs that are kept are not known here)", "", true},
};

void RefuseArguments(const std::string& path, const std::map<std::string, std::string>& arguments,
                     bool evaluates) {
  for (const RefusedArgument& row : kRefused) {
    if (row.of_evaluation && !evaluates) continue;
    for (const auto& [name, value] : arguments) {
      const bool is_set = !value.empty() && value != "false";
      const bool is_of_row =
          name == row.argument || name.starts_with(std::string(row.argument) + ".");
      if (!is_set || !is_of_row) continue;
      throw Error({.file = path,
                   .where = name,
                   .text = fmt::format("expected {}, found {}", row.expected, Quoted(value)),
                   .hint = std::string(row.hint)});
    }
  }
}

bool Evaluates(const std::map<std::string, std::string>& arguments) {
  const auto strategy = arguments.find("eval_strategy");
  return strategy != arguments.end() && strategy->second != "no";
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
  const bool evaluates = Evaluates(arguments);
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

// "momentum=0.9, nesterov = true" (_parse_optim_args of trainer_optimizer.py, which takes blanks
// out first).
std::map<std::string, std::string> OptimArgs(const std::map<std::string, std::string>& arguments) {
  std::map<std::string, std::string> given;
  const auto found = arguments.find("optim_args");
  if (found == arguments.end()) return given;
  std::string text = found->second;
  std::erase(text, ' ');
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    if (equals != std::string::npos) given[item.substr(0, equals)] = item.substr(equals + 1);
  }
  return given;
}

// 0 and false are as if they were not there.
bool IsTrue(const std::string& value) {
  return value == "true" || value == "True" || value == "yes" || IsValue(value, kNotZero);
}

// Those of optimizers of PyTorch's that keep more for it (_get_sgd, _get_rmsprop of
// trainer_optimizer.py).
void SetOptimArgs(const std::string& path, const std::map<std::string, std::string>& arguments,
                  Options& options) {
  const auto optim = arguments.find(std::string(kOptim));
  auto given = OptimArgs(arguments);
  std::erase_if(given, [](const auto& item) { return !IsTrue(item.second); });
  if (optim == arguments.end() || given.empty()) return;
  if (optim->second == "rmsprop" && (given.contains("momentum") || given.contains("centered"))) {
    throw Error({.file = path,
                 .where = "optim_args",
                 .text = "expected rmsprop without momentum and centered, found " +
                         Quoted(arguments.at("optim_args"))});
  }
  if (optim->second != "sgd" || !given.contains("momentum")) return;
  SetFlag("--optimizer", "optim_args", "sgdm", options);
  const auto decay = arguments.find("weight_decay");
  std::string args =
      decay != arguments.end() && IsValue(decay->second, kNotZero) ? "weight_decay" : "";
  if (given.contains("nesterov")) args += args.empty() ? "nesterov" : ",nesterov";
  if (!args.empty()) SetFlag("--optimizer-args", "optim_args", args, options);
}

// The glob of a regular expression that has nothing but letters, ".", ".*" and "\\."; "" of others.
std::string GlobOf(std::string_view expression) {
  std::string glob;
  while (!expression.empty()) {
    const bool is_any = expression.starts_with(".*");
    const bool is_dot = expression.starts_with("\\.");
    const char letter = expression.front();
    const bool is_name = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
    if (!is_any && !is_dot && !is_name && letter != '.') return "";
    glob += is_any ? '*' : is_dot ? '.' : letter == '.' ? '?' : letter;
    expression.remove_prefix(is_any || is_dot ? 2 : 1);
  }
  return glob;
}

// As --galore has them.  A name of a list picks the modules that have it in theirs, unless it is an
// expression that matches all of theirs, as a text alone is (check_target_module_exists).
std::string TargetsOf(const std::string& path, const std::string& argument,
                      const std::string& told) {
  if (told == "all-linear" || told == "all_linear") return "all-linear";
  const bool is_list = told.starts_with('[');
  std::string targets;
  for (const std::string& target : is_list ? ReadTexts(told) : std::vector{told}) {
    const bool is_part = is_list && target.find_first_of("*\\") == target.npos;
    const std::string glob = is_part ? target : GlobOf(target);
    const bool is_known = !glob.empty() && glob.find_first_of(",:") == glob.npos;
    if (!is_known) {
      throw Error({.file = path,
                   .where = argument,
                   .text = "expected names of modules, or expressions of letters, '.' and '.*', "
                           "found " +
                           Quoted(target),
                   .hint = "leave it out, and type --galore RANK:NAMES"});
    }
    targets += (targets.empty() ? "" : ",") + glob;
  }
  return targets;
}

// _get_galore_optimizer of trainer_optimizer.py.
void SetGaLoreArgs(const std::string& path, const std::map<std::string, std::string>& arguments,
                   Options& options) {
  const std::string modules = "optim_target_modules";
  const auto refuse = [&](const std::string& where, const std::string& expected,
                          const std::string& found) {
    throw Error(
        {.file = path, .where = where, .text = "expected " + expected + ", found " + found});
  };
  const auto told = arguments.find(modules);
  if (told == arguments.end()) {
    refuse(modules, "names of modules, or all-linear, which galore_adamw asks for", "none");
  }
  const auto given = OptimArgs(arguments);
  const auto kind = given.find("proj_type");
  if (kind != given.end() && kind->second != "std")
    refuse("optim_args", "proj_type=std", Quoted(kind->second));
  const auto rank = given.find("rank");
  const std::string text = rank == given.end() ? "128" : rank->second;
  SetFlag("--galore", "optim_args", text + ":" + TargetsOf(path, modules, told->second), options);
}

}  // namespace

void SetTrainingArguments(const Typed& typed, Options& options) {
  std::map<std::string, std::string> arguments = ReadArguments(typed.text);
  CheckCheckpointing(typed.text, arguments);
  RefuseArguments(typed.text, arguments, Evaluates(arguments));
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
  SetOptimArgs(typed.text, arguments, options);
  if (optim != arguments.end() && optim->second == "galore_adamw")
    SetGaLoreArgs(typed.text, arguments, options);
}

}  // namespace onnxfit

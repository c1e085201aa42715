#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/compared.h"
#include "cli/config_file.h"
#include "cli/config_keys.h"
#include "cli/flags.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"

namespace onnxfit {
namespace {

std::string DisplayName(const Flag& flag) {
  return std::string(flag.name.empty() ? flag.letter : flag.name);
}

// As CLI11 wants them: "--batch,-b".
std::string NamesOf(const Flag& flag) {
  if (flag.name.empty() || flag.letter.empty()) return DisplayName(flag);
  return fmt::format("{},{}", flag.name, flag.letter);
}

// Every value may be left out and all are kept as text, so that CLI11 has nothing to
// refuse: what is wrong is said here, in our words.
CLI::Option* Declare(CLI::App& app, const Flag& flag) {
  if (CLI::Option* known = app.get_option_no_throw(DisplayName(flag))) return known;
  if (flag.value.empty()) return app.add_flag(NamesOf(flag));
  const auto accept = [](const CLI::results_t&) { return true; };
  CLI::Option* option = app.add_option(NamesOf(flag), accept)->expected(0, 1);
  return option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

// Whether one of the words may be the flag: "--batch=8", and "-b8" or "-vb8" of letters.
bool MayBeAmong(std::span<const std::string> words, const Flag& flag) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    if (word.starts_with("--")) return word.substr(0, word.find('=')) == flag.name;
    return !flag.letter.empty() && word.starts_with('-') &&
           word.find(flag.letter.back()) != word.npos;
  });
}

// An option that no word of the command line is.
const CLI::Option* Untyped() {
  static CLI::App app;
  static const CLI::Option* const option = app.add_flag("--untyped");
  return option;
}

// Those that may be among the words, as CLI11 looks at all that it knows for each that it is told;
// the others are Untyped.  Rows of one name share one, too: whether a value follows it is said by
// that of `run` where a program is run, else by the others.
std::vector<const CLI::Option*> DeclareAll(CLI::App& app, std::span<const std::string> words,
                                           bool is_of_program) {
  for (const Flag& flag : Flags()) {
    const bool says = (flag.of == Only(Command::kRun)) == is_of_program;
    if (says && MayBeAmong(words, flag)) Declare(app, flag);
  }
  std::vector<const CLI::Option*> declared;
  for (const Flag& flag : Flags()) {
    declared.push_back(MayBeAmong(words, flag) ? Declare(app, flag) : Untyped());
  }
  return declared;
}

void Parse(CLI::App& app, std::span<const std::string> args) {
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // it reads from the back
  } catch (const CLI::Error&) {
    throw Error({.text = "the command line could not be read", .hint = "onnxfit --help"});
  }
}

// What was typed after `flag`, or else what the environment has.
std::vector<Typed> GivenOf(const Flag& flag, const CLI::Option& option) {
  std::vector<Typed> values;
  for (const std::string& text : option.results()) values.push_back({DisplayName(flag), text});
  if (!values.empty() || flag.about) return values;
  const std::string name = EnvironmentName(flag);
  const char* text = std::getenv(name.c_str());
  if (text != nullptr && *text != '\0') values.push_back({name, text});
  return values;
}

// The same, or else what the config of the current folder has.
std::vector<Typed> ValuesOf(const Flag& flag, const CLI::Option& option, const ConfigFile& config) {
  std::vector<Typed> values = GivenOf(flag, option);
  return values.empty() ? DefaultsOf(config, flag) : values;
}

// Empty for commands that run nothing, and where there is no file.
ConfigFile ConfigFor(const Options& options) {
  std::error_code ignored;
  const bool runs = (kOfRuns & Only(options.command)) != 0;
  if (!runs || !std::filesystem::is_regular_file(kConfigName, ignored)) return {};
  return ReadConfigFile(kConfigName);
}

void Apply(const Flag& flag, const std::vector<Typed>& values, Options& options) {
  const bool once = !flag.repeatable && !flag.value.empty();
  if (once && values.size() > 1) {
    throw Error({.where = DisplayName(flag),
                 .text = fmt::format("expected one value, found {} and {}", Quoted(values[0].text),
                                     Quoted(values[1].text))});
  }
  for (const Typed& value : values) flag.set(value, options);
}

constexpr std::string_view kBatchSizeLetters = "-bs";  // by which -b would mean "s"

// What a [[check]] calls it, "" for what it does not have.
std::string_view KeyOfName(std::string_view flag) {
  if (flag == "--gpu" || flag == "--memory") return "budget";
  for (const Flag& row : Flags()) {
    if (row.name == flag && !KeyOf(row).empty()) return KeyOf(row);
  }
  const std::vector<std::string_view> keys = CheckKeys();
  const auto found = std::ranges::find(keys, flag.substr(std::min<size_t>(2, flag.size())));
  return found == keys.end() ? "" : *found;
}

std::string KeyHint(std::string_view flag) {
  const std::string_view key = KeyOfName(flag);
  return key.empty() ? "" : fmt::format("{}, a key of [[check]] in {}", key, kConfigName);
}

[[noreturn]] void RefuseFlag(const std::string& typed) {
  const std::string name = typed.substr(0, typed.find('='));
  const bool is_long = name.starts_with("--") || name == kBatchSizeLetters;
  const std::string meant = is_long ? DidYouMean(name, FlagNames()) : "";
  const std::string key = meant.empty() ? KeyHint(name) : "";
  const std::string hint = meant.empty() && key.empty() ? "onnxfit --help" : key;
  throw Error({.text = fmt::format("unknown flag {}{}", Quoted(name), meant), .hint = hint});
}

// What is no flag: commands and models.  After "--" nothing is a flag.
std::vector<std::string> Positionals(const std::vector<std::string>& unclaimed) {
  std::vector<std::string> words;
  bool flags_end = false;
  for (const std::string& word : unclaimed) {
    if (flags_end || word.size() < 2 || word[0] != '-') {
      words.push_back(word);
    } else if (word == "--") {
      flags_end = true;
    } else {
      RefuseFlag(word);
    }
  }
  return words;
}

// Refuses what stands where a command may stand, if it is neither that nor a file: a
// near miss of a command's name, or any plain word that a model follows.
void CheckCommand(const std::vector<std::string>& words) {
  std::error_code ignored;
  if (words[0].find_first_of("./") != std::string::npos) return;
  const std::string meant = DidYouMean(words[0], NamesOf<Command>(kCommands));
  if (meant.empty() && words.size() == 1) return;
  if (std::filesystem::exists(words[0], ignored)) return;
  throw Error({.text = fmt::format("expected a command or a model file, found {}{}",
                                   Quoted(words[0]), meant),
               .hint = meant.empty() ? "onnxfit --help" : ""});
}

// The command that `words` begin with, if they do.
std::optional<Command> FindCommand(const std::vector<std::string>& words) {
  for (const Spelling<Command>& row : kCommands) {
    if (!words.empty() && row.name == words[0]) return row.value;
  }
  return std::nullopt;
}

// "help" or "help max-batch".
bool AsksForHelp(const std::vector<std::string>& words) {
  std::error_code ignored;
  return !words.empty() && words[0] == "help" && !std::filesystem::exists(words[0], ignored);
}

// "max-batch training": whose help, and on what.  Files may stand beside.
void TakeHelp(std::vector<std::string> words, Options& options) {
  options.action = Action::kHelp;
  const std::optional<Command> command = FindCommand(words);
  if (command) words.erase(words.begin());
  options.command = command.value_or(Command::kEstimate);
  std::erase_if(words, [](const std::string& word) {
    return word.starts_with('-') || word.find_first_of("./") != std::string::npos;
  });
  if (!words.empty()) options.help_topic = words[0];
}

// The same, taken off; without one it is estimate.
Command TakeCommand(std::vector<std::string>& words) {
  const auto command = FindCommand(words);
  if (command) {
    words.erase(words.begin());
  } else if (!words.empty()) {
    CheckCommand(words);
  }
  return command.value_or(Command::kEstimate);
}

std::string LogOf(const std::vector<std::string>& words) {
  if (words.empty()) return "-";
  if (words.size() == 1) return words[0];
  throw Error(
      {.text = fmt::format("expected one log, found {} and {}", Quoted(words[0]), Quoted(words[1])),
       .hint = "a model goes to --model"});
}

std::string ModelOf(const std::vector<std::string>& words) {
  if (words.empty()) {
    throw Error(
        {.text = "expected a model file, found none", .hint = "onnxfit MODEL.pt2, or MODEL.onnx"});
  }
  if (words.size() == 1) return words[0];
  throw Error({.text = fmt::format("expected one model file, found {} and {}", Quoted(words[0]),
                                   Quoted(words[1]))});
}

// "OLD NEW", or of a report one model.
void SetSides(const std::vector<std::string>& words, Options& options) {
  if (options.command == Command::kReport && words.size() != 2) {
    options.model = ModelOf(words);
    return;
  }
  if (words.size() != 2) {
    throw Error(
        {.text = fmt::format("expected two files, the old one first, found {}", words.size()),
         .hint = "onnxfit diff OLD NEW"});
  }
  options.old_model = words[0];
  options.model = words[1];
}

std::string ConfigOf(const std::vector<std::string>& words) {
  if (words.empty()) return CheckOptions().config;
  if (words.size() == 1 && IsModelName(words[0])) {
    const std::string name = std::filesystem::path(words[0]).filename().string();
    throw Error({.file = words[0],
                 .text = "expected a config of checks, found a model",
                 .hint = fmt::format("onnxfit init, or model = \"{}\" below [[check]]", name)});
  }
  if (words.size() == 1) return words[0];
  throw Error({.text = fmt::format("expected one config, found {} and {}", Quoted(words[0]),
                                   Quoted(words[1])),
               .hint = "models stand in it"});
}

std::string FolderOf(const std::vector<std::string>& words) {
  if (words.size() < 2) return words.empty() ? "" : words[0];
  throw Error({.text = fmt::format("expected one folder, found {} and {}", Quoted(words[0]),
                                   Quoted(words[1]))});
}

// max-batch looks for the batch, unless another size is solved for.
bool IsHeldBatch(const Flag& flag) {
  return flag.name == "--batch" && flag.of == Only(Command::kMaxBatch);
}

// Whether a row of this name is of the command.
bool IsOfAnyRow(const Flag& flag, Command command, bool solves) {
  return std::any_of(Flags().begin(), Flags().end(), [&](const Flag& other) {
    return DisplayName(other) == DisplayName(flag) && IsOf(other, command) &&
           (solves || !IsHeldBatch(other));
  });
}

// "explain-oom alone", "estimate or explain-oom".
std::string CommandsOf(const Flag& flag) {
  std::vector<std::string_view> names;
  for (const Spelling<Command>& row : kCommands) {
    if (IsOfAnyRow(flag, row.value, /*solves=*/false)) names.push_back(row.name);
  }
  return names.size() == 1 ? fmt::format("{} alone", names[0]) : OneOf(names);
}

// A flag of another command, or one that is about a model where there is none.
void CheckFlag(const Flag& flag, const Options& options, bool has_model, bool solves) {
  if (!IsOfAnyRow(flag, options.command, solves)) {
    const bool is_search = flag.of == Only(Command::kMaxBatch) && !options.model.empty();
    throw Error({.where = DisplayName(flag),
                 .text = fmt::format("expected with {}, found with {}", CommandsOf(flag),
                                     ToString(options.command)),
                 .hint = options.command == Command::kCheck ? KeyHint(flag.name)
                         : is_search                        ? "onnxfit max-batch " + options.model
                                                            : ""});
  }
  const bool is_of_model = IsOfRun(flag) || flag.group == kCardGroup;
  if (options.command == Command::kExplainOom && is_of_model && !has_model) {
    throw Error({.where = DisplayName(flag), .text = "expected beside --model, which is missing"});
  }
}

// The names of dimensions or inputs that `flag` has set, none for other flags.
std::set<std::string> SizesSet(const Flag& flag, const Options& options) {
  const DimBinding& binding = options.request.binding;
  if (flag.name == "--shape") return NamesIn({.batch = {}, .inputs = binding.inputs});
  if (flag.name != "--dim") return {};
  std::set<std::string> names = NamesIn({.batch = {}, .dims = binding.dims});
  for (const SweptDim& dim : options.sweep.dims) names.insert(dim.name);
  return names;
}

// Of an estimate, too.
void KeepTyped(const Flag& flag, const CLI::Option& option, Options& options) {
  const bool is_of_run = IsOfRun(flag) || flag.group == kCardGroup;
  if (!is_of_run || !IsOf(flag, Command::kEstimate)) return;
  for (const Typed& typed : GivenOf(flag, option)) {
    options.typed.push_back(
        {std::string(flag.name), std::string(flag.letter), flag.value.empty() ? "" : typed.text});
  }
}

// What the command line, the environment and the config say of each flag; the config's sizes are
// for models that have them.
void ApplyAll(const std::vector<const CLI::Option*>& declared, Options& options) {
  const auto is_given = [&](std::string_view name) {
    for (size_t i = 0; i < declared.size(); ++i) {
      if (Flags()[i].name == name) return !GivenOf(Flags()[i], *declared[i]).empty();
    }
    return false;
  };
  const bool has_model = is_given("--model");
  const bool solves = is_given("--solve");
  const ConfigFile config = ConfigFor(options);
  for (size_t i = 0; i < declared.size(); ++i) {
    const Flag& flag = Flags()[i];
    if (declared[i]->count() > 0) CheckFlag(flag, options, has_model, solves);
    if (!IsOf(flag, options.command) || (IsHeldBatch(flag) && !solves)) continue;
    if (declared[i]->count() > 0) KeepTyped(flag, *declared[i], options);
    const std::vector<Typed> values = ValuesOf(flag, *declared[i], config);
    if (!values.empty()) options.given.emplace_back(flag.name);
    // What is typed wins over what --training-args has set before.
    if (!values.empty() && flag.name == "--checkpoint") options.request.settings.checkpoint.clear();
    Apply(flag, values, options);
    const bool is_default = GivenOf(flag, *declared[i]).empty();
    if (is_default) options.request.binding.optional.merge(SizesSet(flag, options));
  }
  CheckRun(options);
}

// What only training has.
constexpr std::string_view kOfTraining[] = {"--optimizer",
                                            "--optimizer-impl",
                                            "--optimizer-args",
                                            "--galore",
                                            "--param-groups",
                                            "--training-args",
                                            "--loop",
                                            "--clip-grad",
                                            "--ema",
                                            "--optimizer-in-backward",
                                            "--loss",
                                            "--loss-output",
                                            "--label-smoothing",
                                            "--mixup",
                                            "--labels",
                                            "--zero-grad",
                                            "--freeze",
                                            "--accumulate",
                                            "--eval-batch",
                                            "--eval-keep",
                                            "--checkpoint",
                                            "--devices",
                                            "--strategy",
                                            "--world",
                                            "--ddp-views",
                                            "--ddp-static-graph",
                                            "--no-sync",
                                            "--shard-world",
                                            "--fsdp-modules",
                                            "--fsdp-keep",
                                            "--fsdp-reshard",
                                            "--fsdp-offload",
                                            "--fsdp-policy",
                                            "--reduce-bucket",
                                            "--prefetch-bucket",
                                            "--persistence-threshold",
                                            "--overlap-comm",
                                            "--zero-offload",
                                            "--schedule",
                                            "--stage",
                                            "--split-at",
                                            "--drop-outputs",
                                            "--checkpoint-reentrant"};

// Whether it says what inference does anyway.
bool SaysNone(std::string_view flag, const TrainingSettings& settings) {
  return (flag == "--optimizer" && settings.optimizer == Optimizer::kNone) ||
         (flag == "--loss" && settings.loss == Loss::kNone);
}

// What was typed in vain.
void WarnOfIdleFlags(const std::vector<const CLI::Option*>& declared, Options& options) {
  EstimateRequest& request = options.request;
  if (request.settings.mode != Mode::kEval) return;
  std::vector<std::string_view> idle;
  for (size_t i = 0; i < declared.size(); ++i) {
    const std::string_view name = Flags()[i].name;
    const bool is_of_training =
        std::find(std::begin(kOfTraining), std::end(kOfTraining), name) != std::end(kOfTraining);
    const bool is_typed = is_of_training && declared[i]->count() > 0;
    if (is_typed && !SaysNone(name, request.settings)) idle.push_back(name);
  }
  if (idle.empty()) return;
  request.warnings.push_back(
      {warning::kIdleFlags,
       fmt::format("{} change{} nothing: inference has no optimizer, no gradients and no loss",
                   fmt::join(idle, ", "), idle.size() == 1 ? "s" : "")});
}

// Whether a model is given by its numbers: then no file has to be.
bool HasNumbers(const std::vector<const CLI::Option*>& declared) {
  for (size_t i = 0; i < declared.size(); ++i) {
    if (Flags()[i].group == kNumbersGroup && !GivenOf(Flags()[i], *declared[i]).empty())
      return true;
  }
  return false;
}

// What the words mean to the command.
void TakeWords(const std::vector<std::string>& words, bool has_numbers, Options& options) {
  switch (options.command) {
    case Command::kEstimate:
      if (!has_numbers || !words.empty()) options.model = ModelOf(words);
      break;
    case Command::kMaxBatch:
    case Command::kVerify:
    case Command::kAnnotate:
      options.model = ModelOf(words);
      break;
    case Command::kCheck:
      options.check.config = ConfigOf(words);
      break;
    case Command::kDiff:
    case Command::kReport:
      SetSides(words, options);
      break;
    case Command::kExplainOom:
      options.log = LogOf(words);
      break;
    case Command::kGpus:
    case Command::kExplain:
    case Command::kCompletion:
      options.filters = words;
      break;
    case Command::kInit:
      options.folder = FolderOf(words);
      break;
    case Command::kRun:  // TakeProgram has the program's
      if (!words.empty()) {
        throw Error({.text = fmt::format("expected flags alone in front of --, found {}",
                                         Quote(words[0]))});
      }
      break;
  }
}

// The flag that a word names; null for none of ours.
const Flag* OurFlagNamed(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const auto found = std::ranges::find_if(Flags(), [&](const Flag& flag) {
    return !name.empty() && (name == flag.name || name == flag.letter);
  });
  return found == Flags().end() ? nullptr : &*found;
}

// "run -g t4 python train.py --batch-size 8": the program's own flags are none of ours, so that the
// missing -- is told first.
void RefuseWithoutDashes(std::span<const std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with('-')) {
      const Flag* const flag = OurFlagNamed(words[i]);
      if (flag == nullptr || flag->about) return;  // told as unknown, or a question about us
      if (!flag->value.empty() && words[i].find('=') == std::string::npos) ++i;
      continue;
    }
    throw Error(
        {.text = fmt::format("expected -- in front of the program, found {}", Quote(words[i])),
         .hint = fmt::format(
             "onnxfit run {}-- {}",
             i == 0 ? "-g rtx3060 " : fmt::format("{} ", fmt::join(words.first(i), " ")),
             fmt::join(words.subspan(i), " "))});
  }
}

// "run -g t4 -- python train.py": what stands behind -- is the program's.
std::vector<std::string> TakeProgram(std::span<const std::string> args, Options& options) {
  const auto end = !args.empty() && args[0] == ToString(Command::kRun)
                       ? std::ranges::find(args, "--")
                       : args.end();
  if (end != args.end()) options.program.words.assign(end + 1, args.end());
  const bool is_run = !args.empty() && args[0] == ToString(Command::kRun);
  if (is_run && end == args.end()) RefuseWithoutDashes(args.subspan(1));
  return {args.begin(), end};
}

}  // namespace

Options ParseOptions(std::span<const std::string> typed) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  Options options;
  const std::vector<std::string> args = TakeProgram(typed, options);
  const std::vector<const CLI::Option*> declared =
      DeclareAll(app, args, !options.program.words.empty());
  Parse(app, args);

  for (size_t i = 0; i < declared.size(); ++i) {
    if (!Flags()[i].about || declared[i]->count() == 0) continue;
    Flags()[i].set({}, options);
    if (options.action == Action::kHelp) TakeHelp(app.remaining(), options);
    return options;
  }
  if (std::ranges::find(args, kBatchSizeLetters) != args.end()) {
    RefuseFlag(std::string(kBatchSizeLetters));
  }
  std::vector<std::string> words = Positionals(app.remaining());
  if (AsksForHelp(words)) {
    words.erase(words.begin());
    TakeHelp(std::move(words), options);
    return options;
  }
  options.command = TakeCommand(words);
  TakeWords(words, HasNumbers(declared), options);
  ApplyAll(declared, options);
  WarnOfIdleFlags(declared, options);
  CheckSweep(options);
  CheckWorld(options);
  CheckPictures(options);
  CheckVerify(options);
  CheckNumbers(options);
  return options;
}

}  // namespace onnxfit

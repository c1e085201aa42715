// The flags: one row each, read by the parser, by --help, and as variables of the environment
// and keys of a config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/values.h"

namespace onnxfit {

// Which commands have a flag: a set of them.
using Commands = unsigned;
constexpr Commands Only(Command command) { return 1u << static_cast<unsigned>(command); }
inline constexpr Commands kAllCommands = ~0u;
inline constexpr Commands kOfAnswers = Only(Command::kEstimate) | Only(Command::kMaxBatch) |
                                       Only(Command::kDiff) | Only(Command::kReport) |
                                       Only(Command::kAnnotate);
inline constexpr Commands kOfRuns =
    kOfAnswers | Only(Command::kVerify) | Only(Command::kExplainOom);
inline constexpr Commands kOfReports =
    ~(Only(Command::kInit) | Only(Command::kExplain) | Only(Command::kCompletion));
// That write what a terminal shows; a page is for a browser, a model for viewers.
inline constexpr Commands kOfText = ~(Only(Command::kReport) | Only(Command::kAnnotate) |
                                      Only(Command::kExplain) | Only(Command::kCompletion));
// That may exit with 1.
inline constexpr Commands kOfGates =
    kOfAnswers | Only(Command::kVerify) | Only(Command::kCheck) | Only(Command::kRun);
// That judge a run on cards of the table.
inline constexpr Commands kOfCards = kOfAnswers | Only(Command::kRun);

// Several rows may have one name where each is of other commands.
struct Flag {
  std::string_view name;    // "--batch", "" where there is a letter alone
  std::string_view letter;  // "-b", "" where there is none
  std::string_view value;   // what follows, as help calls it; "" for a switch
  std::string_view group;   // of the help
  std::string help;
  std::string_view standard;  // the default, as help shows it
  void (*set)(const Typed& typed, Options& options);
  bool repeatable = false;
  bool about = false;  // asks about onnxfit itself: goes before all others
  Commands of = kAllCommands;
};

// The groups of flags that say what is run.
inline constexpr std::string_view kRunGroup = "The run";
inline constexpr std::string_view kTrainingGroup = "How it is trained";
inline constexpr std::string_view kRanksGroup = "Several cards";
inline constexpr std::string_view kFileGroup = "What a file leaves open";
inline constexpr std::string_view kLibrariesGroup = "PyTorch and its libraries";
// Of those that say which cards the answer is for.
inline constexpr std::string_view kCardGroup = "The card";
// Of those that give a model by its numbers.
inline constexpr std::string_view kProgramGroup = "The program";
// Of those that play steps of several lengths.
inline constexpr std::string_view kLengthsGroup = "Batches that differ in length";
// Of those that ask for tokens one by one.
inline constexpr std::string_view kGenerationGroup = "Tokens one by one (--mode generate)";
// Of those that put another engine in PyTorch's place.
inline constexpr std::string_view kRuntimeGroup = "ONNX Runtime in the place of PyTorch";
inline constexpr std::string_view kNumbersGroup = "A model given by numbers (a closed form)";
inline constexpr std::string_view kReportGroup = "The report";

// Whether it says what is run, on whatever card.
bool IsOfRun(const Flag& flag);

bool IsOf(const Flag& flag, Command command);

// All of them, in the order of the help.
const std::vector<Flag>& Flags();

// The groups of a command's flags, in the order of the help.
std::vector<std::string_view> GroupsOf(Command command);

// "--batch" and all others that are no letters.
std::vector<std::string_view> FlagNames();

// "ONNXFIT_LOSS_OUTPUT" for --loss-output, "ONNXFIT_N" for -n.
std::string EnvironmentName(const Flag& flag);

// What there is to say of variables of the environment that look like ours:
// "ONNXFIT_BATCH_SIZE is not read (did you mean ONNXFIT_BATCH?)" of a variable that no flag has,
// but nearly; "" of all others: ours may have other readers, such as a build.
std::string WarnedOf(std::string_view name);

// The same of all of the environment, in the order of their names.
std::vector<std::string> StrangeVariables();

// What flags.cc gathers, of run_flags.cc; what that gathers, of rank_flags.cc.
std::vector<Flag> RunFlags();
std::vector<Flag> RankFlags();
std::vector<Flag> NumbersFlags();
// Of runtime_flags.cc.
std::vector<Flag> RuntimeFlags();
// --ram, of run and of sessions on a CPU.
void SetRam(const Typed& typed, Options& options);
// Of lengths_flags.cc.
std::vector<Flag> LengthFlags();
// Of generation_flags.cc, with --mode's value of these.
std::vector<Flag> GenerationFlags();
void SetMode(const Typed& typed, Options& options);

}  // namespace onnxfit

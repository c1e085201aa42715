#include "cli/flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

#include "cli/values.h"
#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/base/error.h"
#include "estimator/base/slices.h"
#include "estimator/base/text.h"
#include "estimator/compare/check.h"

namespace onnxfit {
namespace {

constexpr int64_t kMostMultiple = int64_t{1} << 20;
constexpr int64_t kMostTried = int64_t{1} << 40;  // a batch that is tried

// "12GB", and no plain number.
bool IsSize(const std::string& text) {
  if (text.find_first_not_of("0123456789.") == std::string::npos) return false;
  try {
    return ParseBytes(text, "") > 0;
  } catch (const Error&) {
    return false;
  }
}

// A cloud, or a family of machines with several kinds of cards, has a list.
[[noreturn]] void RefuseUnknownCard(const Typed& typed) {
  if (IsSize(typed.text)) {
    throw Error({.where = typed.place,
                 .text = fmt::format("expected a card, found {}", Quoted(typed.text)),
                 .hint = "--memory " + typed.text});
  }
  const bool has_machines = !CloudInstancesOf(typed.text).empty();
  const std::vector<std::string_view> near =
      has_machines ? std::vector<std::string_view>() : SuggestCards(typed.text);
  throw Error(
      {.where = typed.place,
       .text = fmt::format("expected a card, found {}{}", Quoted(typed.text),
                           near.empty() ? "" : fmt::format(" (did you mean {}?)", OneOf(near))),
       .hint = has_machines            ? "onnxfit gpus " + typed.text
               : ReadSlice(typed.text) ? "onnxfit gpus mig"
                                       : "onnxfit gpus"});
}

void SetCard(const Typed& typed, Options& options) {
  const Card* card = FindCard(typed.text);
  if (card == nullptr && typed.text != kCardAtHand) RefuseUnknownCard(typed);
  options.targets.cards.push_back(card);
  const std::optional<RentedCard> rented = FindRentedCard(typed.text);
  if (!rented || card == nullptr || rented->alias != card->alias) return;
  options.targets.machines.insert({card, {typed.text, rented->cards}});
}

void SetCards(const Typed& typed, Options& options) {
  for (const Typed& item : SplitList(typed)) SetCard(item, options);
}

constexpr int64_t kMostOfOneCard = int64_t{1} << 20;

// A machine that clouds rent has some cards, a card is one.
int64_t CardsOf(const Typed& typed) {
  const std::optional<RentedCard> rented = FindRentedCard(typed.text);
  if (!rented) return 1;
  if (rented->cards == 0) Refuse(typed, "one machine, as those called so differ in their cards");
  return rented->cards;
}

// "4xt4" is as often a card as it says, "t4" once, a machine that clouds rent as often as it has
// some; no card's name is digits before an x.
int64_t SetDevice(const Typed& typed, Options& options) {
  const size_t digits = std::min(typed.text.find_first_not_of("0123456789"), typed.text.size());
  const bool is_counted = digits > 0 && digits < typed.text.size() && typed.text[digits] == 'x';
  const std::string name = is_counted ? typed.text.substr(digits + 1) : typed.text;
  const std::vector<const Card*>& cards = options.targets.cards;
  const Card* card = FindCard(name);
  if (card == nullptr || std::ranges::find(cards, card) == cards.end()) {
    SetCard({.place = typed.place, .text = name}, options);
    options.targets.machines.erase(cards.back());  // all its cards count
    ++options.targets.of_ranks;
  }
  const int64_t times =
      is_counted ? ParseWhole({.place = typed.place, .text = typed.text.substr(0, digits)}, 1,
                              kMostOfOneCard)
                 : 1;
  return times * CardsOf({.place = typed.place, .text = name});
}

// The cards of all ranks.
void SetDevices(const Typed& typed, Options& options) {
  int64_t ranks = 0;
  for (const Typed& item : SplitList(typed)) ranks += SetDevice(item, options);
  if (ranks > kMostOfOneCard) Refuse(typed, "at most 1048576 cards");
  options.request.settings.ranks.world = ranks;
}

void SetMemory(const Typed& typed, Options& options) {
  const int64_t bytes = ParseBytes(typed.text, typed.place);
  if (bytes == 0) Refuse(typed, "a size above 0, such as 8GiB");
  options.targets.sizes.push_back(bytes);
}

void SetReserve(const Typed& typed, Options& options) {
  options.targets.reserved_bytes = ParseBytes(typed.text, typed.place);
}

// The cards that the answer is for.
std::vector<Flag> TargetFlags() {
  constexpr std::string_view kGroup = kCardGroup;
  return {
      {"--gpu", "-g", "NAME", kGroup,
       "does it fit this card (onnxfit gpus lists them), auto for the one at hand; t4,l4 for "
       "several",
       "", SetCards, true, false, kOfCards | Only(Command::kExplainOom)},
      {"--devices", "", "LIST", kGroup,
       "the cards of all ranks, in the place of --world: 4xa100-40gb,4xt4, or machines of clouds, "
       "2xp3.8xlarge; it has to fit each",
       "", SetDevices, false, false, Only(Command::kEstimate) | Only(Command::kMaxBatch)},
      {"--all-gpus", "", "", kGroup, "all cards of the table, smallest first, as a list: exit 0",
       "", [](const Typed& t, Options& o) { o.targets.lists_all = ParseSwitch(t); }, false, false,
       Only(Command::kMaxBatch)},
      {"--memory", "", "SIZE", kGroup,
       "a card of this size, such as 8GiB (8GB counts in thousands); repeatable", "", SetMemory,
       true, false, kOfCards},
      {"--reserve", "", "SIZE", kGroup, "left free for others, such as a desktop", "0", SetReserve,
       false, false, kOfCards},
      {"--strict", "", "", kGroup, "TIGHT counts as not fitting", "",
       [](const Typed& t, Options& o) { o.is_strict = ParseSwitch(t); }, false, false,
       kOfCards | Only(Command::kCheck)},
      {"--cudnn", "", "FOLDER", kGroup,
       "ask the cuDNN there for its convolutions' workspaces; auto: PyTorch's, the toolkit's; "
       "none: they have none. Takes no GPU",
       "",
       [](const Typed& t, Options& o) {
         SetText(t, "a folder with libcudnn.so.9, auto or none", o.cudnn);
       },
       false, false, kOfAnswers | Only(Command::kVerify)},
      {"--multiple-of", "", "N", kGroup, "only batches that N divides", "1; 32 of --solve image",
       [](const Typed& t, Options& o) { o.limits.multiple_of = ParseWhole(t, 1, kMostMultiple); },
       false, false, Only(Command::kMaxBatch)},
      {"--max", "", "N", kGroup, "no larger batch", "",
       [](const Typed& t, Options& o) { o.limits.most = ParseWhole(t, 1); }, false, false,
       Only(Command::kMaxBatch)},
      {"--solve", "", "NAME", kGroup,
       "the largest of another size instead, at --batch: a dimension that the file leaves free, "
       "image for height and width together, rank beside --lora",
       "", [](const Typed& t, Options& o) { SetText(t, "the name of a size", o.solve); }, false,
       false, Only(Command::kMaxBatch)},
  };
}

constexpr int64_t kMostSeen = 16;  // cards of one machine

// The cards that a program sees, each as often as it says.
void SetSeen(const Typed& typed, Options& options) {
  for (const Typed& item : SplitList(typed)) {
    Options one;
    const int64_t times = SetDevice(item, one);
    std::vector<const Card*>& seen = options.targets.seen;
    if (times > kMostSeen - static_cast<int64_t>(seen.size())) {
      Refuse(typed, fmt::format("at most {} cards", kMostSeen));
    }
    seen.insert(seen.end(), static_cast<size_t>(times), one.targets.cards.back());
  }
}

// "8:512": from which batch to which one is looked for.
void SetBatches(const Typed& typed, Options& options) {
  const size_t colon = typed.text.find(':');
  if (colon == std::string::npos) Refuse(typed, "the least and the most, such as 8:512");
  ProgramOptions& program = options.program;
  program.least_batch = ParseWhole({typed.place, typed.text.substr(0, colon)}, 1);
  program.most_batch =
      ParseWhole({typed.place, typed.text.substr(colon + 1)}, program.least_batch, kMostTried);
}

}  // namespace

void SetRam(const Typed& typed, Options& options) {
  options.ram_bytes = ParseBytes(typed.text, typed.place);
  if (options.ram_bytes == 0) Refuse(typed, "a size above 0, such as 12.7GB");
}

namespace {

std::vector<Flag> ProgramFlags() {
  constexpr Commands kOf = Only(Command::kRun);
  return {
      {"--steps", "", "N", kProgramGroup, "end it after so many steps of an optimizer",
       "as it wants; 10 with --max-batch",
       [](const Typed& t, Options& o) { o.program.most_steps = ParseWhole(t, 1); }, false, false,
       kOf},
      {"--seconds", "", "N", kProgramGroup, "end it after so many seconds", "",
       [](const Typed& t, Options& o) { o.program.most_seconds = ParseWhole(t, 1); }, false, false,
       kOf},
      {"--idle-seconds", "", "N", kProgramGroup,
       "end a server that has waited so many seconds for requests; 0: never", "30",
       [](const Typed& t, Options& o) { o.program.idle_seconds = ParseWhole(t, 0); }, false, false,
       kOf},
      {"--until-same", "", "", kProgramGroup,
       "end it when three turns of its loop allocate the same: steps of the optimizer, or calls of "
       "the model where there is none",
       "", [](const Typed&, Options& o) { o.program.until_same = true; }, false, false, kOf},
      {"--max-batch", "", "LOW:HIGH", kProgramGroup,
       "the largest batch that the card runs: its number stands in the place of {} in the "
       "program's "
       "words, a run a batch",
       "", SetBatches, false, false, kOf},
      {"--multiple-of", "", "N", kProgramGroup, "only batches that N divides", "1",
       [](const Typed& t, Options& o) { o.limits.multiple_of = ParseWhole(t, 1, kMostMultiple); },
       false, false, kOf},
      {"--cards", "", "LIST", kCardGroup,
       "does it fit each of these, as --gpu for each: t4,rtx3060,a100-40gb; a run a card", "",
       SetCards, false, false, kOf},
      {"--devices", "", "LIST", kCardGroup,
       "the cards that it sees at once: 2xt4,a100-40gb; it has to fit each", "", SetSeen, false,
       false, kOf},
      {"--ram", "", "SIZE", kCardGroup,
       "does it fit the RAM of that machine, too: 12.7GB of Colab's free one", "", SetRam, false,
       false, kOf},
      {"--html", "", "FILE", kReportGroup,
       "write a page for a browser there, too: memory over the run, steps, lines, what stays open",
       "", [](const Typed& t, Options& o) { SetText(t, "the path of a file", o.program.page); },
       false, false, kOf},
      {"--snapshot", "", "FILE", kReportGroup,
       "write PyTorch's memory snapshot of it there, for memory_viz or onnxfit explain-oom", "",
       [](const Typed& t, Options& o) { SetText(t, "the path of a file", o.program.snapshot); },
       false, false, kOf}};
}

std::vector<Flag> MessageFlags() {
  return {{"--model", "", "MODEL", "The model",
           "the model that was trained: names the tensor that asked, and the largest batch that "
           "runs, or what a snapshot's run kept beside it; flags of a run are about it",
           "", [](const Typed& t, Options& o) { SetText(t, "the path of a model", o.model); },
           false, false, Only(Command::kExplainOom)}};
}

// "junit=out.xml", or a format alone for standard output, which takes one.
void AddOutput(const Typed& typed, Options& options) {
  const size_t equals = std::min(typed.text.size(), typed.text.find('='));
  FormattedOutput output = {
      .format = ParseChoice({typed.place, typed.text.substr(0, equals)}, kCheckFormats)};
  if (equals < typed.text.size()) {
    SetText({typed.place, typed.text.substr(equals + 1)}, "the path of a file", output.file);
  }
  for (const FormattedOutput& other : options.check.outputs) {
    if (other.file != output.file) continue;
    RefuseTwice(typed, output.file.empty() ? "standard output" : output.file);
  }
  options.check.outputs.push_back(output);
}

constexpr int64_t kMostSteps = 1'000'000;

constexpr int64_t kMostDevices = 1024;

void SetTolerance(const Typed& typed, Options& options) {
  if (!typed.text.ends_with('%')) Refuse(typed, "a share from 0 to 100%, such as 5%");
  const Allowance allowance = ParseAllowance(typed);
  if (allowance.bytes > 0 || allowance.share > 1)
    Refuse(typed, "a share from 0 to 100%, such as 5%");
  options.verify.limits.tolerance = allowance.share;
}

std::vector<Flag> VerifyFlags() {
  constexpr std::string_view kGroup = "The proof";
  constexpr Commands kOf = Only(Command::kVerify);
  return {
      {"--device", "", "N", kGroup, "which card, as CUDA counts them", "0",
       [](const Typed& t, Options& o) {
         o.verify.device = static_cast<int>(ParseWhole(t, 0, kMostDevices));
       },
       false, false, kOf},
      {"--steps", "", "N", kGroup, "training steps that are carried out", "10",
       [](const Typed& t, Options& o) {
         o.verify.limits.steps = static_cast<int>(ParseWhole(t, 1, kMostSteps));
       },
       false, false, kOf},
      {"--tolerance", "", "PERCENT", kGroup, "how far off a figure may be", "5%", SetTolerance,
       false, false, kOf},
      {"--max-batch", "", "", kGroup, "the largest batch that the card takes now", "",
       [](const Typed& t, Options& o) { o.verify.wants_max_batch = ParseSwitch(t); }, false, false,
       kOf},
      {"--save", "", "", kGroup,
       "write what the card's libraries take to onnxfit.calibration.json (or --calibration), which "
       "later estimates read",
       "", [](const Typed& t, Options& o) { o.verify.saves = ParseSwitch(t); }, false, false, kOf},
  };
}

std::vector<Flag> ComparisonFlags() {
  constexpr std::string_view kGroup = "The comparison";
  return {
      {"--update", "", "", kGroup, "write the lock: what each check takes now", "",
       [](const Typed& t, Options& o) { o.check.update = ParseSwitch(t); }, false, false,
       Only(Command::kCheck)},
      {"--lock", "", "FILE", kGroup, "the lock", "the config's name with .lock.json",
       [](const Typed& t, Options& o) { o.check.lock = t.text; }, false, false,
       Only(Command::kCheck)},
      {"--against", "", "REF", kGroup, "compare with git:REF, a report, a model or another lock",
       "the lock", [](const Typed& t, Options& o) { o.check.against = t.text; }, false, false,
       Only(Command::kCheck)},
      {"--only", "", "GLOB", kGroup, "only checks of such names; repeatable", "all",
       [](const Typed& t, Options& o) {
         SetText(t, "names of checks such as resnet*", o.check.only.emplace_back());
       },
       true, false, Only(Command::kCheck)},
      {"--fail-above", "", "SIZE|PERCENT", kGroup,
       "exit 1 where it grew by more, or kept more than is predicted: 64MiB, 2%", "",
       [](const Typed& t, Options& o) { o.fail_above = ParseAllowance(t); }, false, false,
       Only(Command::kDiff)},
  };
}

std::vector<Flag> MachineFlags() {
  return {
      {"--detect", "", "", "The cards",
       "those of this machine instead: what CUDA shows of them, what others hold, a row for the "
       "table",
       "", [](const Typed& t, Options& o) { o.detect = ParseSwitch(t); }, false, false,
       Only(Command::kGpus)}};
}

// Reports, and files for other tools.
void SetEstimateFormat(const Typed& typed, Options& options) {
  for (const Spelling<FileFormat>& row : kFileFormats) {
    if (row.name == typed.text) options.file_format = row.value;
  }
  if (!options.file_format) options.format = ParseChoice(typed, kFormats);
}

std::vector<Flag> ReportFlags() {
  constexpr std::string_view kGroup = kReportGroup;
  constexpr Commands kToOneFile = kOfReports & ~Only(Command::kCheck);
  constexpr Commands kOneFormat = kToOneFile & kOfText;
  return {
      {"--format", "-f", "F", kGroup,
       Choices(kFormats) + "; csv has a header and one row a run, in exact bytes", "text",
       [](const Typed& t, Options& o) { o.format = ParseChoice(t, kFormats); }, false, false,
       kOneFormat & ~Only(Command::kEstimate) & ~Only(Command::kRun)},
      {"--format", "-f", "F", kGroup, Choices(kRunFormats), "text",
       [](const Typed& t, Options& o) { o.format = ParseChoice(t, kRunFormats); }, false, false,
       Only(Command::kRun)},
      {"--format", "-f", "F", kGroup,
       Choices(kFormats) + ", for other tools " + Choices(kFileFormats) +
           "; csv has a header and one row a run, in exact bytes",
       "text", SetEstimateFormat, false, false, Only(Command::kEstimate)},
      {"--format", "-f", "F[=FILE]", kGroup, Choices(kCheckFormats) + "; repeatable", "text",
       AddOutput, true, false, Only(Command::kCheck)},
      {"--output", "", "FILE", kGroup, "write there", "standard output",
       [](const Typed& t, Options& o) {
         SetText(t, "the path of a file", o.output);
         if (o.output == "-") o.output.clear();  // standard output, as everywhere
       },
       false, false, kToOneFile},
      {"--force", "", "", kGroup, "write there even if FILE exists", "",
       [](const Typed& t, Options& o) { o.force = ParseSwitch(t); }, false, false,
       kToOneFile | Only(Command::kInit)},
      {"", "-n", "N", kGroup,
       "how many of the largest tensors, of nodes that grew, or of lines that kept memory", "8",
       [](const Typed& t, Options& o) { o.text.rows = static_cast<size_t>(ParseWhole(t, 0)); },
       false, false, (kOfGates & kOfText) | Only(Command::kExplainOom)},
      {"--why", "", "NAME", kGroup, "the life of one tensor, or of a node's results", "",
       [](const Typed& t, Options& o) {
         SetText(t, "the name of a tensor or a node", o.request.why);
       },
       false, false, Only(Command::kEstimate)},
      {"--timeline", "", "", kGroup,
       "memory over the step of the peak, drawn; of a program, over all of its run", "",
       [](const Typed& t, Options& o) { o.timeline = ParseSwitch(t); }, false, false,
       Only(Command::kEstimate) | Only(Command::kRun)},
      {"--tree", "", "", kGroup, "what each module has at the peak", "",
       [](const Typed& t, Options& o) { o.tree = ParseSwitch(t); }, false, false,
       Only(Command::kEstimate)},
      {"", "-q", "", kGroup, "the first line alone", "",
       [](const Typed& t, Options& o) { o.text.quiet = ParseSwitch(t); }, false, false, kOfText},
      {"", "-v", "", kGroup, "details, events of each step, notes on how the file was read", "",
       [](const Typed& t, Options& o) {
         o.text.verbose = ParseSwitch(t);
         o.request.details = o.text.verbose;
       },
       false, false, (kOfRuns | Only(Command::kRun)) & kOfText},
      {"--ascii", "", "", kGroup, "no letter beyond ASCII", "",
       [](const Typed& t, Options& o) { o.text.ascii = ParseSwitch(t); }, false, false, kOfText},
      {"--color", "", "WHEN", kGroup, Choices(kColorModes), "auto",
       [](const Typed& t, Options& o) { o.color = ParseChoice(t, kColorModes); }, false, false,
       kOfReports & kOfText},
      {"--exit-zero", "", "", kGroup, "exit 0 where a target or budget does not hold", "",
       [](const Typed& t, Options& o) { o.exit_zero = ParseSwitch(t); }, false, false, kOfGates},
      {"--version", "", "", kGroup, "print the version", "",
       [](const Typed&, Options& o) { o.action = Action::kVersion; }, false, true},
      {"--help", "-h", "", kGroup, "print this; --help all: every flag", "",
       [](const Typed&, Options& o) { o.action = Action::kHelp; }, false, true},
  };
}

std::vector<Flag> AllFlags() {
  std::vector<Flag> flags = MessageFlags();
  for (Flag& flag : ProgramFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : RunFlags()) {
    if (flag.of == kAllCommands) flag.of = kOfRuns;
    flags.push_back(std::move(flag));
  }
  for (Flag& flag : TargetFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : NumbersFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : LengthFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : GenerationFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : RuntimeFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : VerifyFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : ComparisonFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : MachineFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : ReportFlags()) flags.push_back(std::move(flag));
  return flags;
}

constexpr std::string_view kOurVariables = "ONNXFIT_";

bool IsRead(std::string_view name) {
  return std::ranges::any_of(
      Flags(), [&](const Flag& flag) { return !flag.about && EnvironmentName(flag) == name; });
}

// "--batch-size" of "ONNXFIT_BATCH_SIZE".
std::string FlagOf(std::string_view name) {
  std::string flag = "--";
  for (const char c : name.substr(kOurVariables.size())) {
    flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return flag;
}

}  // namespace

const std::vector<Flag>& Flags() {
  static const std::vector<Flag> flags = AllFlags();
  return flags;
}

std::vector<std::string_view> GroupsOf(Command command) {
  std::vector<std::string_view> groups;
  for (const Flag& flag : Flags()) {
    const bool is_new = std::ranges::find(groups, flag.group) == groups.end();
    if (IsOf(flag, command) && is_new) groups.push_back(flag.group);
  }
  return groups;
}

std::vector<std::string_view> FlagNames() {
  std::vector<std::string_view> names;
  for (const Flag& flag : Flags()) {
    if (!flag.name.empty()) names.push_back(flag.name);
  }
  return names;
}

bool IsOfRun(const Flag& flag) {
  constexpr std::string_view kGroups[] = {kRunGroup, kTrainingGroup, kRanksGroup, kFileGroup,
                                          kLibrariesGroup};
  return std::ranges::find(kGroups, flag.group) != std::end(kGroups);
}

bool IsOf(const Flag& flag, Command command) { return (flag.of & Only(command)) != 0; }

std::string EnvironmentName(const Flag& flag) {
  std::string name = "ONNXFIT_";
  for (const char c : flag.name.empty() ? flag.letter.substr(1) : flag.name.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

std::string WarnedOf(std::string_view name) {
  if (!name.starts_with(kOurVariables) || IsRead(name)) return "";
  const std::string_view meant = LikelyMeant(FlagOf(name), FlagNames());
  for (const Flag& flag : Flags()) {
    if (meant.empty() || flag.name != meant) continue;
    return fmt::format("{} is not read (did you mean {}?)", name, EnvironmentName(flag));
  }
  return "";
}

std::vector<std::string> StrangeVariables() {
  std::vector<std::string> warned;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string warning = WarnedOf(text.substr(0, text.find('=')));
    if (!warning.empty()) warned.push_back(warning);
  }
  std::ranges::sort(warned);
  return warned;
}

}  // namespace onnxfit

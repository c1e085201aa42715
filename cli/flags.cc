#include "cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>

#include "cli/alloc_conf.h"
#include "cli/budgets.h"
#include "cli/numbers_flags.h"
#include "cli/verify_flags.h"
#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/cloud_instances.h"
#include "estimator/base/error.h"

namespace onnxfit {
namespace {

// One value is the request's; several are an axis of a table.
template <typename Value, typename Single>
void SetAxis(const std::vector<Value>& values, Single& single, std::vector<Value>& axis) {
  if (values.size() == 1) {
    single = values[0];
  } else {
    axis = values;
  }
}

void SetBatch(const Typed& typed, Options& options) {
  SetAxis(ParseWholes(typed), options.request.binding.batch, options.sweep.batches);
}

void SetPrecision(const Typed& typed, Options& options) {
  SetAxis(ParseChoices(typed, kPrecisions), options.request.settings.precision,
          options.sweep.precisions);
}

void SetOptimizer(const Typed& typed, Options& options) {
  SetAxis(ParseChoices(typed, kOptimizers), options.request.settings.optimizer,
          options.sweep.optimizers);
}

void SetDim(const Typed& typed, Options& options) {
  const auto [name, sizes] = ParseDim(typed);
  for (const SweptDim& swept : options.sweep.dims) {
    if (swept.name == name) RefuseTwice(typed, name);
  }
  if (options.request.binding.dims.contains(name)) RefuseTwice(typed, name);
  if (sizes.size() == 1) {
    options.request.binding.dims[name] = sizes[0];
  } else {
    options.sweep.dims.push_back({name, sizes});
  }
}

void SetShape(const Typed& typed, Options& options) {
  const auto [name, dims] = ParseShape(typed);
  if (!options.request.binding.inputs.try_emplace(name, dims).second) RefuseTwice(typed, name);
}

// A probability below 1, of which only its being 0 matters to memory.
std::optional<double> ProbabilityIn(const std::string& text) {
  char* end = nullptr;
  const double p = std::strtod(text.c_str(), &end);
  const bool is_number = !text.empty() && *end == '\0';
  return is_number && p >= 0 && p < 1 ? std::optional(p) : std::nullopt;
}

// "auto", "P" or "GLOB=P".  Later ones win: P speaks for all places.
void SetDropout(const Typed& typed, Options& options) {
  TrainingSettings& settings = options.request.settings;
  const size_t equals = typed.text.rfind('=');
  const bool is_placed = equals != std::string::npos && equals > 0;
  const std::string text = is_placed ? typed.text.substr(equals + 1) : typed.text;
  const std::optional<double> p = ProbabilityIn(text);
  if (!p.has_value() && (is_placed || text != "auto")) {
    Refuse(typed, "auto, a probability below 1, or one for a place, such as classifier=0.1");
  }
  if (is_placed) {
    settings.placed_dropouts.push_back({typed.text.substr(0, equals), *p});
    return;
  }
  settings.dropout = p;
  settings.placed_dropouts.clear();
}

struct AssumedRow {
  std::string_view what;
  void (*set)(Assumed&, bool);
};

constexpr AssumedRow kAssumed[] = {
    {"conv-bias", [](Assumed& assumed, bool yes) { assumed.conv_bias = yes; }},
    {"in-place-dropout", [](Assumed& assumed, bool yes) { assumed.in_place_dropout = yes; }},
    {"tied-head", [](Assumed& assumed, bool yes) { assumed.tied_head = yes; }},
};

void SetAssumed(const Typed& typed, Options& options) {
  for (const AssumedRow& row : kAssumed) {
    for (const bool yes : {true, false}) {
      if (typed.text != fmt::format("{}={}", row.what, yes ? "yes" : "no")) continue;
      row.set(options.request.settings.assumed, yes);
      return;
    }
  }
  Refuse(typed, "conv-bias=yes, in-place-dropout=yes, tied-head=yes, or the same with no");
}

void SetText(const Typed& typed, std::string_view expected, std::string& text) {
  if (typed.text.empty()) Refuse(typed, expected);
  text = typed.text;
}

std::vector<std::string_view> FrameworkNames() {
  std::vector<std::string_view> names;
  for (const FrameworkProfile& framework : Frameworks()) names.push_back(framework.name);
  return names;
}

void SetFramework(const Typed& typed, Options& options) {
  options.request.settings.framework = Frameworks()[ParseName(typed, FrameworkNames())];
}

// "a | b | c", the choices of a table.
template <typename Enum, size_t size>
std::string Choices(const Spelling<Enum> (&table)[size]) {
  std::string text;
  for (const Spelling<Enum>& row : table) {
    text += fmt::format("{}{}", text.empty() ? "" : " | ", row.name);
  }
  return text;
}

// Of one step: each one is run.
constexpr int64_t kMostBatches = 1024;

constexpr int64_t kMostMultiple = int64_t{1} << 20;

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
       .hint = has_machines ? "onnxfit gpus " + typed.text : "onnxfit gpus"});
}

void SetCard(const Typed& typed, Options& options) {
  const Card* card = FindCard(typed.text);
  if (card == nullptr && typed.text != kCardAtHand) RefuseUnknownCard(typed);
  options.targets.cards.push_back(card);
  const std::optional<RentedCard> rented = FindRentedCard(typed.text);
  if (!rented || card == nullptr || rented->alias != card->alias) return;
  options.targets.machines.insert({card, {typed.text, rented->cards}});
}

void SetMemory(const Typed& typed, Options& options) {
  const int64_t bytes = ParseBytes(typed.text, typed.place);
  if (bytes == 0) Refuse(typed, "a size above 0, such as 8GiB");
  options.targets.sizes.push_back(bytes);
}

void SetReserve(const Typed& typed, Options& options) {
  options.targets.reserved_bytes = ParseBytes(typed.text, typed.place);
}

std::vector<Flag> RunFlags() {
  const Options standard;
  const TrainingSettings& settings = standard.request.settings;
  constexpr std::string_view kGroup = kRunGroup;
  return {
      {"--batch", "-b", "N", kGroup,
       "size of the dimension left free first, or of dimension 0; a list (8,16) or a range "
       "(8:64:8, first:last:step) makes a table",
       "1, or the file's", SetBatch, false, false, kOfRuns & ~Only(Command::kMaxBatch)},
      {"--dim", "", "NAME=N", kGroup,
       "size of another free dimension, or a list or range of them; repeatable", "", SetDim, true},
      {"--shape", "", "IN=2x512", kGroup, "shape of one input; repeatable", "", SetShape, true},
      {"--precision", "-p", "P", kGroup, Choices(kPrecisions) + ", or a list of them",
       ToString(settings.precision), SetPrecision},
      {"--optimizer", "-o", "O", kGroup, Choices(kOptimizers) + ", or a list of them",
       ToString(settings.optimizer), SetOptimizer},
      {"--optimizer-impl", "", "I", kGroup, Choices(kOptimizerImpls), "PyTorch's choice",
       [](const Typed& t, Options& o) {
         o.request.settings.optimizer_impl = ParseChoice(t, kOptimizerImpls);
       }},
      {"--clip-grad", "", "", kGroup, "clip_grad_norm_ before each optimizer step", "",
       [](const Typed& t, Options& o) { o.request.settings.clip_grad = ParseSwitch(t); }},
      {"--ema", "", "", kGroup, "keep an average of the model beside it (AveragedModel)", "",
       [](const Typed& t, Options& o) { o.request.settings.ema = ParseSwitch(t); }},
      {"--mode", "", "M", kGroup, Choices(kModes), ToString(settings.mode),
       [](const Typed& t, Options& o) { o.request.settings.mode = ParseChoice(t, kModes); }},
      {"--loss", "", "L", kGroup, Choices(kLosses), ToString(settings.loss),
       [](const Typed& t, Options& o) { o.request.settings.loss = ParseChoice(t, kLosses); }},
      {"--loss-output", "", "NAME", kGroup, "the output that the loss takes", "the first of floats",
       [](const Typed& t, Options& o) {
         SetText(t, "the name of an output", o.request.settings.loss_output);
       }},
      {"--labels", "", "NAME", kGroup, "the input that serves as labels, such as decoder_input_ids",
       "a tensor of their own",
       [](const Typed& t, Options& o) {
         SetText(t, "the name of an input", o.request.settings.labels);
       }},
      {"--batch-norm", "", "B", kGroup,
       "auto puts folded batch norms back where they show, restore behind every convolution "
       "with a bias, keep takes the graph as it is",
       "auto",
       [](const Typed& t, Options& o) {
         o.request.settings.batch_norm = ParseChoice(t, kBatchNormUses);
       }},
      {"--dropout", "", "P", kGroup,
       "puts lost dropout back; 0 for none; GLOB=P at nodes or modules; repeatable", "auto",
       SetDropout, true},
      {"--assume", "", "WHAT=yes", kGroup,
       "what a file has lost: conv-bias, in-place-dropout, tied-head; repeatable", "auto",
       SetAssumed, true},
      {"--attention", "", "A", kGroup,
       "kernels of scaled_dot_product_attention, or written out as transformers' eager attention: "
       "sdpa | eager",
       "sdpa",
       [](const Typed& t, Options& o) {
         o.request.settings.attention = ParseChoice(t, kAttentionUses);
       }},
      {"--in-place", "", "I", kGroup,
       "activations and sums write over their input: always where legal; where file or library "
       "say so (known); never; auto guesses always, and takes the worse where it matters",
       "auto",
       [](const Typed& t, Options& o) {
         o.request.settings.in_place = ParseChoice(t, kInPlaceUses);
       }},
      {"--out-of-place", "", "GLOB", kGroup,
       "nodes or modules that never do so, such as */Add; repeatable", "",
       [](const Typed& t, Options& o) {
         SetText(t, "names of nodes or modules such as */Add",
                 o.request.settings.out_of_place.emplace_back());
       },
       true},
      {"--zero-grad", "", "Z", kGroup, Choices(kZeroGrads) + " (set_to_none=False)",
       ToString(settings.loop.zero_grad),
       [](const Typed& t, Options& o) {
         o.request.settings.loop.zero_grad = ParseChoice(t, kZeroGrads);
       }},
      {"--hold-outputs", "", "", kGroup, "the loop keeps the model's outputs in a name", "",
       [](const Typed& t, Options& o) { o.request.settings.loop.hold_outputs = ParseSwitch(t); }},
      {"--prefetch", "", "N", kGroup, "batches on the device beyond the current one", "0",
       [](const Typed& t, Options& o) {
         o.request.settings.loop.prefetch = ParseWhole(t, 0, kMostBatches);
       }},
      {"--accumulate", "", "N", kGroup, "micro-batches of --batch for one optimizer step", "1",
       [](const Typed& t, Options& o) {
         o.request.settings.loop.accumulate = ParseWhole(t, 1, kMostBatches);
       }},
      {"--freeze", "", "GLOB", kGroup, "parameters without gradient, such as layer1.*; repeatable",
       "",
       [](const Typed& t, Options& o) {
         SetText(t, "names of parameters such as layer1.*",
                 o.request.settings.freeze.emplace_back());
       },
       true},
      // Before --alloc-conf, whose options it decides.
      {"--framework", "", "F", kGroup,
       fmt::format("whose allocator and workspaces: {}", fmt::join(FrameworkNames(), " | ")),
       settings.framework.name, SetFramework},
      {"--alloc-conf", "", "CONF", kGroup,
       "as PYTORCH_ALLOC_CONF, such as expandable_segments:True", "",
       [](const Typed& t, Options& o) {
         o.request.alloc_conf = ParseAllocConf(t, o.request.settings.framework);
       }},
      {"--overhead", "", "SIZE", kGroup, "CUDA context and kernels, such as 450MiB; 0 is allowed",
       "the card's",
       [](const Typed& t, Options& o) { o.request.overhead_bytes = ParseBytes(t.text, t.place); }},
      {"--calibration", "", "FILE", kGroup,
       "what was measured on the card: its context, cuDNN's workspaces; none for nothing",
       "./onnxfit.calibration.json in estimate, max-batch and verify",
       [](const Typed& t, Options& o) {
         SetText(t, "the path of a file, or none", o.calibration);
       }},
  };
}

// The cards that the answer is for.
std::vector<Flag> TargetFlags() {
  constexpr std::string_view kGroup = kCardGroup;
  return {
      {"--gpu", "-g", "NAME", kGroup,
       "does it fit this card (onnxfit gpus lists them), auto for the one at hand; repeatable", "",
       SetCard, true, false, kOfAnswers | Only(Command::kExplainOom)},
      {"--all-gpus", "", "", kGroup, "all cards of the table, smallest first, as a list: exit 0",
       "", [](const Typed& t, Options& o) { o.targets.lists_all = ParseSwitch(t); }, false, false,
       Only(Command::kMaxBatch)},
      {"--memory", "", "SIZE", kGroup,
       "a card of this size, such as 8GiB (8GB counts in thousands); repeatable", "", SetMemory,
       true, false, kOfAnswers},
      {"--reserve", "", "SIZE", kGroup, "left free for others, such as a desktop", "0", SetReserve,
       false, false, kOfAnswers},
      {"--strict", "", "", kGroup, "TIGHT counts as not fitting", "",
       [](const Typed& t, Options& o) { o.is_strict = ParseSwitch(t); }, false, false, kOfAnswers},
      {"--cudnn", "", "FOLDER", kGroup,
       "ask the cuDNN there for its convolutions' workspaces; auto: PyTorch's, the toolkit's. "
       "Takes no GPU",
       "",
       [](const Typed& t, Options& o) {
         SetText(t, "a folder with libcudnn.so.9, or auto", o.cudnn);
       },
       false, false, kOfAnswers | Only(Command::kVerify)},
      {"--multiple-of", "", "N", kGroup, "only batches that N divides", "1",
       [](const Typed& t, Options& o) { o.limits.multiple_of = ParseWhole(t, 1, kMostMultiple); },
       false, false, Only(Command::kMaxBatch)},
      {"--max", "", "N", kGroup, "no larger batch", "",
       [](const Typed& t, Options& o) { o.limits.most = ParseWhole(t, 1); }, false, false,
       Only(Command::kMaxBatch)},
  };
}

std::vector<Flag> MessageFlags() {
  return {{"--model", "", "MODEL", "The model",
           "the model that was trained: names the tensor that asked, and the largest batch that "
           "runs; \"The run\" is about it",
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

std::vector<Flag> ComparisonFlags() {
  constexpr std::string_view kGroup = "The comparison";
  return {
      {"--update", "", "", kGroup, "write the lock: what each check takes now", "",
       [](const Typed& t, Options& o) { o.check.update = ParseSwitch(t); }, false, false,
       Only(Command::kCheck)},
      {"--against", "", "REF", kGroup, "compare with git:REF, a report, a model or another lock",
       "the lock", [](const Typed& t, Options& o) { o.check.against = t.text; }, false, false,
       Only(Command::kCheck)},
      {"--only", "", "GLOB", kGroup, "only checks of such names; repeatable", "all",
       [](const Typed& t, Options& o) {
         SetText(t, "names of checks such as resnet*", o.check.only.emplace_back());
       },
       true, false, Only(Command::kCheck)},
      {"--fail-above", "", "SIZE|PERCENT", kGroup, "exit 1 where it grew by more: 64MiB, 2%", "",
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

std::vector<Flag> ReportFlags() {
  constexpr std::string_view kGroup = "The report";
  constexpr Commands kOneFormat = kOfReports & ~Only(Command::kCheck);
  return {
      {"--format", "-f", "F", kGroup,
       Choices(kFormats) + "; csv has a header and one row a run, in exact bytes", "text",
       [](const Typed& t, Options& o) { o.format = ParseChoice(t, kFormats); }, false, false,
       kOneFormat},
      {"--format", "-f", "F[=FILE]", kGroup, Choices(kCheckFormats) + "; repeatable", "text",
       AddOutput, true, false, Only(Command::kCheck)},
      {"--output", "", "FILE", kGroup, "write there", "standard output",
       [](const Typed& t, Options& o) { SetText(t, "the path of a file", o.output); }, false, false,
       kOneFormat},
      {"--force", "", "", kGroup, "write there even if FILE exists", "",
       [](const Typed& t, Options& o) { o.force = ParseSwitch(t); }, false, false,
       kOneFormat | Only(Command::kInit)},
      {"", "-n", "N", kGroup, "how many of the largest tensors, or nodes that grew", "8",
       [](const Typed& t, Options& o) { o.text.rows = static_cast<size_t>(ParseWhole(t, 0)); },
       false, false, kOfGates},
      {"--why", "", "NAME", kGroup, "the life of one tensor, or of a node's results", "",
       [](const Typed& t, Options& o) {
         SetText(t, "the name of a tensor or a node", o.request.why);
       },
       false, false, Only(Command::kEstimate)},
      {"", "-q", "", kGroup, "the first line alone", "",
       [](const Typed& t, Options& o) { o.text.quiet = ParseSwitch(t); }},
      {"", "-v", "", kGroup, "details, events of each step, notes on how the file was read", "",
       [](const Typed& t, Options& o) {
         o.text.verbose = ParseSwitch(t);
         o.request.details = o.text.verbose;
       },
       false, false, kOfRuns},
      {"--ascii", "", "", kGroup, "no letter beyond ASCII", "",
       [](const Typed& t, Options& o) { o.text.ascii = ParseSwitch(t); }},
      {"--color", "", "WHEN", kGroup, Choices(kColorModes), "auto",
       [](const Typed& t, Options& o) { o.color = ParseChoice(t, kColorModes); }, false, false,
       kOfReports},
      {"--exit-zero", "", "", kGroup, "exit 0 where a target or budget does not hold", "",
       [](const Typed& t, Options& o) { o.exit_zero = ParseSwitch(t); }, false, false, kOfGates},
      {"--version", "", "", kGroup, "print the version", "",
       [](const Typed&, Options& o) { o.action = Action::kVersion; }, false, true},
      {"--help", "-h", "", kGroup, "print this", "",
       [](const Typed&, Options& o) { o.action = Action::kHelp; }, false, true},
  };
}

std::vector<Flag> AllFlags() {
  std::vector<Flag> flags = MessageFlags();
  for (Flag& flag : RunFlags()) {
    if (flag.of == kAllCommands) flag.of = kOfRuns;
    flags.push_back(std::move(flag));
  }
  for (Flag& flag : TargetFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : NumbersFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : VerifyFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : ComparisonFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : MachineFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : ReportFlags()) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace

const std::vector<Flag>& Flags() {
  static const std::vector<Flag> flags = AllFlags();
  return flags;
}

std::vector<std::string_view> FlagNames() {
  std::vector<std::string_view> names;
  for (const Flag& flag : Flags()) {
    if (!flag.name.empty()) names.push_back(flag.name);
  }
  return names;
}

bool IsOf(const Flag& flag, Command command) { return (flag.of & Only(command)) != 0; }

std::string EnvironmentName(const Flag& flag) {
  std::string name = "ONNXFIT_";
  for (const char c : flag.name.empty() ? flag.letter.substr(1) : flag.name.substr(2)) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace onnxfit

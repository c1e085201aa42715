#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "cli/flags.h"
#include "cli/options.h"
#include "cli/values.h"
#include "estimator/base/error.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

constexpr size_t kHelpColumn = 26;

// What help says around the flags.
struct Frame {
  std::string_view usage;
  std::string_view examples;
};

constexpr Frame kFrames[] = {
    {R"(onnxfit: how much GPU memory a PyTorch training step needs, and why

usage: onnxfit [estimate] MODEL [flags]             (.pt2, .onnx or - for stdin)
       onnxfit max-batch MODEL [flags]              (what fits a card)
       onnxfit verify MODEL [flags]                 (carry it out on this GPU)
       onnxfit run --gpu NAME -- PROGRAM            (your script, on no GPU)
       onnxfit check [CONFIG] [flags]               (memory regressions, in CI)
       onnxfit diff OLD NEW [flags]                 (what grew)
       onnxfit explain-oom [LOG|SNAPSHOT] [flags]   (what an error means; leaks)
       onnxfit gpus [FILTER] [flags]                (the cards that it knows)
       onnxfit init [FOLDER]                        (a config of checks)
       onnxfit report [OLD] MODEL [flags]           (a page for a browser)
       onnxfit annotate MODEL.onnx [flags]          (a copy for Netron)
       onnxfit explain [CODE|FITS|TIGHT|OOM]        (what the answer says)
       onnxfit completion bash|zsh|fish|man         (for your shell, a manual)
)",
     R"(
examples
  onnxfit gpt2.onnx -b 8 --dim seq=1024 --loss causal-lm --format json
  onnxfit resnet50.onnx -b 64 --gpu rtx3060         (does it fit?)
  onnxfit --params 7e9 --layers 32 --hidden 4096    (no file: a closed form)
  onnxfit max-batch resnet50.onnx --gpu t4          (its flags: add --help)
  onnxfit explain-oom train.log

Flags also come from ONNXFIT_BATCH=32, or [defaults] batch=32 in ./onnxfit.toml
exit: 0 done, 1 a target does not hold, 2 no answer, 3 no GPU (--gpu auto)
)"},
    {R"(onnxfit max-batch: the largest batch that a card trains

usage: onnxfit max-batch MODEL --gpu NAME [flags]
)",
     R"(
examples
  onnxfit max-batch resnet50.onnx --gpu rtx3060
  onnxfit max-batch resnet50.onnx --gpu t4 --multiple-of 8 -p amp-fp16
  onnxfit max-batch resnet50.onnx --memory 8GiB --overhead 0
  onnxfit max-batch resnet50.onnx --all-gpus --format csv
  onnxfit max-batch bert.onnx --gpu l4 --mode eval  (requests side by side)
  onnxfit max-batch gpt2.pt2 --gpu t4 --solve seq -b 1,4,16  (how long?)

Of two batches take the one that FITS; the largest that runs is TIGHT above it.
In CSV they are fitting_batch and max_batch, in JSON fitting.batch, max_batch.

Flags are also read from the environment: ONNXFIT_PRECISION=bf16 is -p bf16.
exit: 0 done, 1 not even one sample fits, 2 no answer (bad flag, no such
      card), 3 no usable GPU here (--gpu auto)
)"},
    {R"(onnxfit verify: the estimate, carried out on the GPU at hand and compared

usage: onnxfit verify MODEL [flags]
)",
     R"(
examples
  onnxfit verify resnet50.onnx -b 32
  onnxfit verify gpt2.onnx -b 8 --loss causal-lm -p amp-bf16 --device 1
  onnxfit verify resnet50.onnx --max-batch           (what the card takes now)
  onnxfit verify resnet50.onnx -b 32 --format json --output proof.json

PASS, FAIL, OOM (the card was full: where, and how much was free).
exit: 0 pass, 1 fail or full, 2 no answer (bad flag, unreadable model), 3 no GPU
)"},
    {R"(onnxfit check: does any model of a config take more than it may, or than before?

usage: onnxfit check [CONFIG] [flags]     (onnxfit.toml; onnxfit init writes it)
)",
     R"(
examples
  onnxfit check --update                  (writes onnxfit.lock.json: commit it)
  onnxfit check
  onnxfit check --against git:main --only 'resnet*'
  onnxfit check --format github --format junit=memory.xml

A line a check: PASS, WARN, FAIL, ERROR, NEW (nothing to compare with), GONE
(in the lock alone); the last two fail but for lock = "optional" in the config.
exit: 0 all hold, 1 a budget or the lock does not, 2 a check has no answer
)"},
    {R"(onnxfit diff: what grew, by kind and by node; what a run kept, by line

usage: onnxfit diff OLD NEW [flags]
       (models, reports of --format json, git:REF:PATH)
       onnxfit diff SNAPSHOT MODEL [flags]
       (what PyTorch wrote of a run)
)",
     R"(
examples
  onnxfit diff old.onnx new.onnx -b 32
  onnxfit diff git:main:model.onnx model.onnx -b 32 -p amp-bf16 --fail-above 2%
  onnxfit diff before.json after.json --format markdown
  onnxfit diff snapshot.pickle model.pt2 -b 32 --fail-above 1%

A snapshot's run is compared where it held most, or where the card was full,
with the moment of the predicted run that is most like it. To write one:
  torch.cuda.memory._record_memory_history(max_entries=100000)  (at the start)
  torch.cuda.memory._dump_snapshot("snapshot.pickle")           (steps later)

exit: 0 done, 1 it grew, or kept more, by more than --fail-above, or a card does
      not hold, 2 no answer, 3 no usable GPU here (--gpu auto)
)"},
    {R"(onnxfit explain-oom: what an out-of-memory message means, and what to change

usage: onnxfit explain-oom [LOG] [flags]    (standard input without LOG, or "-")
       onnxfit explain-oom SNAPSHOT [flags]    (what PyTorch wrote of a run)
)",
     R"(
examples
  onnxfit explain-oom train.log
  python3 train.py 2>&1 | onnxfit explain-oom -q
  onnxfit explain-oom train.log --model resnet50.onnx -b 64 -p amp-bf16
  onnxfit explain-oom train.log --model resnet50.onnx -b 64 --gpu rtx3060
  onnxfit explain-oom snapshot.pickle --model resnet50.pt2 -b 64

A snapshot shows by line what lived, what every turn of the loop leaves behind,
and, beside a model, what the run kept that is not predicted. To write one:
  torch.cuda.memory._record_memory_history(max_entries=100000)  (at the start)
  torch.cuda.memory._dump_snapshot("snapshot.pickle")           (steps later)

Flags are also read from the environment: ONNXFIT_ASCII=1 is --ascii.
exit: 0 explained, 2 no answer (bad flag, no message in the log)
)"},
    {R"(onnxfit gpus: the cards that it knows, and what CUDA shows of their memory

usage: onnxfit gpus [FILTER] [flags]    (a name, family, cloud or size, or mig)
       onnxfit gpus --detect [flags]    (the cards of this machine)
)",
     R"(
examples
  onnxfit gpus "rtx 30"
  onnxfit gpus 24GiB                    (also '>=16GiB', '<8GiB', 8..12GiB)
  onnxfit gpus laptop 8GiB              (what matches both)
  onnxfit gpus aws                      (also gcp, azure, p3, a2-highgpu-1g)
  onnxfit gpus mig h200                 (slices, which one card lists, too)
  onnxfit gpus jetson --format csv
  onnxfit gpus --detect                 (usable memory, and who holds the rest)

Flags are also read from the environment: ONNXFIT_ASCII=1 is --ascii.
exit: 0 done, 2 no answer (bad flag, no such card), 3 no usable GPU (--detect)
)"},
    {R"(onnxfit init: writes onnxfit.toml, with a check for each model

usage: onnxfit init [FOLDER] [flags]   (.onnx files below FOLDER, or below here)
)",
     R"(
examples
  onnxfit init
  onnxfit init training --force         (writes training/onnxfit.toml again)

Each model gets its batch, and a size for other dimensions that it leaves free;
one that cannot be trained becomes a comment that says why.
exit: 0 written, 2 not (there is one already, no models)
)"},
    {R"(onnxfit report: an estimate as one HTML file, with pictures

usage: onnxfit report MODEL [flags] --output FILE.html
       onnxfit report OLD NEW [flags] --output FILE.html   (both, and what grew)
)",
     R"(
examples
  onnxfit report resnet50.onnx -b 32 --gpu rtx3060 --output resnet50.html
  onnxfit report gpt2.onnx -b 8 -p amp-bf16 --gpu t4 --gpu l4 --output gpt2.html
  onnxfit report git:main:gpt2.onnx gpt2.onnx -b 8 --output grew.html

Memory over a step, what lives at its peak, other batches; it needs no network,
and can be read without its script, too.
exit: 0 done, 1 a card does not hold, 2 no answer (bad flag, unreadable model,
      FILE exists), 3 no usable GPU here (--gpu auto)
)"},
    {R"(onnxfit explain: what a warning or a verdict means, and what settles it

usage: onnxfit explain [CODE|FITS|TIGHT|OOM]    (all, a line each, without one)
)",
     R"(
examples
  onnxfit explain OF109
  onnxfit explain TIGHT
  onnxfit explain

exit: 0 done, 2 no such code
)"},
    {R"(onnxfit completion: commands, flags and cards, completed by your shell

usage: onnxfit completion bash|zsh|fish|man
)",
     R"(
examples
  source <(onnxfit completion bash)
  onnxfit completion fish > ~/.config/fish/completions/onnxfit.fish
  onnxfit completion man > ~/.local/share/man/man1/onnxfit.1

exit: 0 done, 2 no such shell
)"},
    {R"(onnxfit annotate: a copy of the model that says what each node takes

usage: onnxfit annotate MODEL.onnx [flags] --output COPY.onnx
)",
     R"(
examples
  onnxfit annotate resnet50.onnx -b 32 --gpu rtx3060 --output annotated.onnx

What a node has at the peak, and what is allocated while it runs forward, stand
in its metadata as onnxfit.at_peak and onnxfit.allocated, where Netron shows
them; the run and its verdicts in the model's own.  Nothing else is changed.
exit: 0 done, 1 a card does not hold, 2 no answer (bad flag, unreadable model,
      FILE exists), 3 no usable GPU here (--gpu auto)
)"},
    {R"(onnxfit run: your own program, on a card that is not there

usage: onnxfit run [--gpu NAME] [flags] -- PROGRAM [ITS FLAGS]
)",
     R"(
examples
  onnxfit run -g rtx3060 -- python train.py --batch-size 32
  onnxfit run --cards t4,rtx3060,a100-40gb --steps 20 -- python finetune.py
  onnxfit run --devices 2xa100-40gb -- torchrun --nproc-per-node 2 train.py
  onnxfit run -g t4 --max-batch 8:512 -- python train.py --batch-size {}

The program runs as it is: its PyTorch allocates as it would on the card, but
kernels do nothing, so that it takes seconds and no GPU.  Small tensors have
values; where it reads one that nobody knows, the answer says so.  What it would
save goes nowhere: weights are zeros here.  What it prints is printed, where
several runs are needed only that of one that fails; with --format json it goes
to standard error.  Linux on x86-64.
exit: 0 done, 1 a card does not hold, 2 no answer (bad flag, the program failed,
      or never used CUDA)
)"},
};

// The flags that most people need, in a few words each.
struct CommonFlag {
  std::string_view name;  // as Flag has it: its name, else its letter
  std::string_view value;
  std::string_view help;
};
constexpr CommonFlag kCommonFlags[] = {
    {"--batch", "N", "samples of a step; 8,16 or 8:64:8 makes a table"},
    {"--dim", "NAME=N", "size of another free dimension, such as seq=512"},
    {"--solve", "NAME", ""},
    {"--precision", "P", "fp32 | amp-bf16 | amp-fp16 | bf16 | fp16 | fp64"},
    {"--optimizer", "O", "adamw | sgdm | adamw-8bit | ... | none [adamw]"},
    {"--loss", "L", "cross-entropy | causal-lm | mse | none [cross-entropy]"},
    {"--mode", "M", "train | eval (inference) | generate [train]"},
    {"--gpu", "NAME", "does it fit this card; auto: the one at hand"},
    {"--memory", "SIZE", "does it fit a card of this size, such as 8GiB"},
    {"--checkpoint", "GLOB", "activations computed again: auto, or names of modules"},
    {"--lora", "RANK", "adapters beside frozen layers"},
    {"--loop", "L", "trainer | accelerate | lightning | timm | ultralytics"},
    {"--strategy", "S", "ddp | zero2 | zero3 | fsdp | pipeline | ...: see ranks"},
    {"--format", "F", "text | json | markdown | csv | ... [text]"},
    {"-v", "", "events of each step, notes on how the file was read"},
};

struct HelpTopic {
  std::string_view name;
  std::string_view what;
  std::array<std::string_view, 3> groups;
};
constexpr HelpTopic kTopics[] = {
    {"training",
     "precision, optimizers, loops, checkpoints, lengths",
     {kRunGroup, kTrainingGroup, kLengthsGroup}},
    {"generate", "tokens one by one: prompts, caches, beams", {kGenerationGroup}},
    {"ranks", "DDP, ZeRO, FSDP, pipelines, tensor parallelism", {kRanksGroup}},
    {"card", "cards, PyTorch's version and its allocator", {kCardGroup, kLibrariesGroup}},
    {"file",
     "what a file leaves open; numbers; ONNX Runtime",
     {kFileGroup, kNumbersGroup, kRuntimeGroup}},
    {"report", "formats, one tensor's life, drawings", {kReportGroup}},
};
constexpr std::string_view kAll = "all";

// "  -b, --batch N", "      --mode M", "  -q".
std::string LeadOf(const Flag& flag, std::string_view value) {
  std::string names =
      fmt::format("{:2}{:2}{}", flag.letter, flag.letter.empty() ? "" : ", ", flag.name);
  if (flag.name.empty()) names = flag.letter;
  return PadRight(fmt::format("  {} {} ", names, value), kHelpColumn);
}

std::string TextOf(const Flag& flag) {
  return flag.standard.empty() ? flag.help : fmt::format("{} [{}]", flag.help, flag.standard);
}

std::string GroupText(Command command, std::string_view group) {
  std::string text = fmt::format("\n{}\n", group);
  for (const Flag& flag : Flags()) {
    if (!IsOf(flag, command) || flag.group != group) continue;
    text += Wrap(LeadOf(flag, flag.value), TextOf(flag));
  }
  return TrimLines(text);
}

const Flag* FlagOf(Command command, std::string_view name) {
  for (const Flag& flag : Flags()) {
    if (IsOf(flag, command) && (flag.name == name || flag.letter == name)) return &flag;
  }
  return nullptr;
}

// Of a command that says what is run: the common flags, and where the others are told.
bool HasTopics(Command command) { return FlagOf(command, "--precision") != nullptr; }

// A group that has a topic is told there.
bool IsOfTopic(std::string_view group) {
  return std::ranges::any_of(kTopics, [&](const HelpTopic& topic) {
    return std::ranges::find(topic.groups, group) != topic.groups.end();
  });
}

std::string ShortText(Command command) {
  std::string text;
  for (const std::string_view group : GroupsOf(command)) {
    if (!IsOfTopic(group)) text += GroupText(command, group);
  }
  text += "\nThe flags that most runs need\n";
  for (const CommonFlag& row : kCommonFlags) {
    const Flag* flag = FlagOf(command, row.name);
    if (flag == nullptr) continue;
    // In a search for the largest some mean something else.
    const bool is_of_search = flag->of == Only(Command::kMaxBatch);
    text += Wrap(LeadOf(*flag, row.value), is_of_search ? TextOf(*flag) : std::string(row.help));
  }
  text += "\nAll others: --help TOPIC, or --help FLAG\n";
  for (const HelpTopic& topic : kTopics) {
    text += fmt::format("  {:<24}{}\n", topic.name, topic.what);
  }
  return TrimLines(text + fmt::format("  {:<24}all of them\n", kAll));
}

std::string AllText(Command command) {
  std::string text;
  for (const std::string_view group : GroupsOf(command)) text += GroupText(command, group);
  return text;
}

// "--loss", "loss" or "b".
const Flag* FlagNamed(Command command, std::string_view name) {
  for (const std::string_view dashes : {"", "--", "-"}) {
    const Flag* flag = FlagOf(command, fmt::format("{}{}", dashes, name));
    if (flag != nullptr) return flag;
  }
  return nullptr;
}

[[noreturn]] void RefuseTopic(std::string_view topic) {
  std::vector<std::string_view> names;
  for (const HelpTopic& row : kTopics) names.push_back(row.name);
  names.push_back(kAll);
  std::vector<std::string_view> candidates = names;
  const std::vector<std::string_view> flags = FlagNames();
  for (const std::string_view flag : flags) candidates.push_back(flag.substr(2));
  throw Error({.where = "--help",
               .text = fmt::format("expected {} or a flag, found {}{}", fmt::join(names, ", "),
                                   Quoted(topic), DidYouMean(topic, candidates)),
               .hint = "onnxfit --help"});
}

std::string TopicText(Command command, std::string_view name) {
  const auto* const topic = std::ranges::find(kTopics, name, &HelpTopic::name);
  if (topic == std::end(kTopics)) {
    const Flag* flag = FlagNamed(command, name);
    if (flag == nullptr) RefuseTopic(name);
    return TrimLines(Wrap(LeadOf(*flag, flag->value), TextOf(*flag)));
  }
  std::string text;
  for (const std::string_view group : GroupsOf(command)) {
    const bool is_here = std::ranges::find(topic->groups, group) != topic->groups.end();
    if (is_here) text += GroupText(command, group);
  }
  return text.empty() ? text : text.substr(1);
}

}  // namespace

std::string HelpText(Command command, std::string_view topic) {
  if (!topic.empty() && topic != kAll) return TopicText(command, topic);
  const Frame& frame = kFrames[static_cast<size_t>(command)];
  const bool is_short = topic.empty() && HasTopics(command);
  return std::string(frame.usage) + (is_short ? ShortText(command) : AllText(command)) +
         std::string(frame.examples);
}

}  // namespace onnxfit

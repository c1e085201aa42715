// The flags that say what is trained but for its ranks, and a model by its numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "cli/flags.h"
#include "cli/training_arguments.h"
#include "cli/values.h"
#include "estimator/base/bytes.h"
#include "estimator/base/framework.h"
#include "estimator/libraries/libraries.h"

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

void SetOptimizerArgs(const Typed& typed, Options& options) {
  uint8_t& args = options.request.settings.optimizer_args;
  args = 0;
  if (typed.text == "none") return;
  for (const OptimizerArg arg : ParseChoices(typed, kOptimizerArgs)) args |= arg;
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

// What the library does unless it is told otherwise.
void SetLoop(const Typed& typed, Options& options) {
  TrainingSettings& settings = options.request.settings;
  settings.loop.library = ParseChoice(typed, kLoopLibraries);
  settings.clip_grad = DoesLoop(settings.loop.library, LoopFact::kClips);
  settings.ema = DoesLoop(settings.loop.library, LoopFact::kAveragesModel);
  settings.channels_last = DoesLoop(settings.loop.library, LoopFact::kLaysChannelsLast);
  if (DoesLoop(settings.loop.library, LoopFact::kZeroesInClosure))
    settings.loop.zero_grad = ZeroGrad::kBeforeBackward;
  settings.label_smoothing = DoesLoop(settings.loop.library, LoopFact::kSmoothsLabels);
  settings.loop.hold_outputs = DoesLoop(settings.loop.library, LoopFact::kHoldsResult);
  settings.loop.prefetch = DoesLoop(settings.loop.library, LoopFact::kLoadsImages) ? 1 : 0;
}

constexpr int64_t kMostRank = 1 << 20;
constexpr int64_t kMostEvaluated = 1 << 30;

void SetCheckpoint(const Typed& typed, Options& options) {
  AddModules(typed, options.request.settings.checkpoint);
}

// Behind the colon of "8:q_proj,v_proj"; `expected` is what such a flag takes.
std::vector<std::string> NamesBehindColon(const Typed& typed, std::string_view expected) {
  std::vector<std::string> names;
  const size_t colon = typed.text.find(':');
  if (colon == std::string::npos) return names;
  for (std::string_view rest = std::string_view(typed.text).substr(colon + 1);;) {
    const size_t comma = rest.find(',');
    names.emplace_back(rest.substr(0, comma));
    if (names.back().empty()) Refuse(typed, expected);
    if (comma == std::string_view::npos) return names;
    rest.remove_prefix(comma + 1);
  }
}

// "8", "8:q_proj,v_proj".
void SetLora(const Typed& typed, Options& options) {
  LoraSettings& lora = options.request.settings.lora;
  lora.rank = ParseWhole({.place = typed.place, .text = typed.text.substr(0, typed.text.find(':'))},
                         1, kMostRank);
  lora.targets = NamesBehindColon(typed, "a rank and names of layers: 8:q_proj,v_proj");
}

// "128", "64:attn,mlp".
void SetGaLore(const Typed& typed, Options& options) {
  GaLoreSettings& galore = options.request.settings.galore;
  galore.rank = ParseWhole(
      {.place = typed.place, .text = typed.text.substr(0, typed.text.find(':'))}, 1, kMostRank);
  galore.targets = NamesBehindColon(typed, "a rank and parts of layers' names: 128:attn,mlp");
}

// "nf4", "int8:q_proj,v_proj".
void SetQuantize(const Typed& typed, Options& options) {
  QuantizeSettings& quantize = options.request.settings.quantize;
  const Typed kind = {.place = typed.place, .text = typed.text.substr(0, typed.text.find(':'))};
  quantize.kind = ParseChoice(kind, kQuantizations);
  quantize.targets = NamesBehindColon(typed, "a kind and names of layers: nf4:q_proj,v_proj");
}

void SetLoraDropout(const Typed& typed, Options& options) {
  const std::optional<double> p = ProbabilityIn(typed.text);
  if (!p.has_value()) Refuse(typed, "a probability below 1");
  options.request.settings.lora.dropout = *p;
}

std::vector<std::string_view> FrameworkNames() {
  std::vector<std::string_view> names;
  for (const FrameworkProfile& framework : Frameworks()) names.push_back(framework.name);
  return names;
}

void SetFramework(const Typed& typed, Options& options) {
  TrainingSettings& settings = options.request.settings;
  settings.framework = Frameworks()[ParseName(typed, FrameworkNames())];
  settings.framework_choice = {.basis = FrameworkBasis::kGiven};
  const bool is_told = options.request.zero_grad_is_given;
  if (settings.framework.keeps_zeroed_grads && !is_told) settings.loop.zero_grad = ZeroGrad::kKeep;
}

// Of one step: each one is run.
constexpr int64_t kMostBatches = 1024;

constexpr int64_t kMostParameters = 1'000'000'000'000'000;
constexpr int64_t kMostUnits = 1 << 24;  // of layers, widths, tokens

std::vector<Flag> LoopFlags() {
  const Options standard;
  const TrainingSettings& settings = standard.request.settings;
  return {
      // Before all that it decides.
      {"--training-args", "", "FILE", kTrainingGroup,
       "transformers' TrainingArguments as JSON (to_json_string): batch, precision, optimizer and "
       "more, for --loop trainer; flags win",
       "", SetTrainingArguments},
      {"--batch", "-b", "N", kRunGroup,
       "size of the dimension left free first, or of dimension 0; a list (8,16) or a range "
       "(8:64:8, first:last:step) makes a table",
       "1, or the file's", SetBatch, false, false, kOfRuns & ~Only(Command::kMaxBatch)},
      {"--batch", "-b", "N", kRunGroup,
       "samples of a step, which --solve holds; a list (1,4,16) makes a table", "1, or the file's",
       SetBatch, false, false, Only(Command::kMaxBatch)},
      {"--dim", "", "NAME=N", kRunGroup,
       "size of another free dimension, or of one that data decide; a list or range makes a "
       "table; repeatable",
       "", SetDim, true},
      {"--shape", "", "IN=2x512", kRunGroup, "shape of one input; repeatable", "", SetShape, true},
      {"--precision", "-p", "P", kRunGroup,
       Choices(kPrecisions) + ", or a list of them: autocast around the types that a .pt2 has, or "
                              "the whole model cast",
       "those types; of ONNX fp32", SetPrecision},
      {"--fp32-weights", "", "", kTrainingGroup,
       "parameters in fp32 whatever a .pt2 has, under autocast too, as peft's "
       "prepare_model_for_kbit_training makes them",
       "", [](const Typed& t, Options& o) { o.fp32_weights = ParseSwitch(t); }},
      {"--optimizer", "-o", "O", kRunGroup, Choices(kOptimizers) + ", or a list of them",
       ToString(settings.optimizer), SetOptimizer},
      {"--optimizer-impl", "", "I", kTrainingGroup, Choices(kOptimizerImpls), "PyTorch's choice",
       [](const Typed& t, Options& o) {
         o.request.settings.optimizer_impl = ParseChoice(t, kOptimizerImpls);
       }},
      {"--optimizer-args", "", "A", kTrainingGroup,
       "a list of those that the optimizer is given: weight_decay (not 0; adamw's takes nothing), "
       "nesterov, amsgrad; or none",
       "none", SetOptimizerArgs},
      {"--galore", "", "RANK[:NAMES]", kTrainingGroup,
       "the rank to which -o galore projects gradients, and of which linear layers: those with "
       "such "
       "parts in their names (globs too; all-linear)",
       "128:attn,mlp", SetGaLore},
      {"--param-groups", "", "G", kTrainingGroup,
       Choices(kParamGroups) +
           ": groups of parameters, of which weight decay leaves some out and which are stepped "
           "one after the other: matrices (nanoGPT's), as transformers' Trainer, timm or "
           "ultralytics make them; auto: the loop's",
       ToString(settings.param_groups),
       [](const Typed& t, Options& o) {
         o.request.settings.param_groups = ParseChoice(t, kParamGroups);
       }},
      // Before those whose defaults it decides.
      {"--loop", "", "L", kTrainingGroup,
       Choices(kLoopLibraries) +
           ": who runs the training loop; a library's has its own order of things and its defaults "
           "(trainer: transformers' Trainer, whose model computes the loss of labels; timm: its "
           "train.py, which smooths labels and loads images ahead; ultralytics: its BaseTrainer "
           "around models that tell classes, with amp-fp16, musgd, an average, channels_last and "
           "micro-batches up to 64 samples)",
       ToString(settings.loop.library), SetLoop},
      {"--clip-grad", "", "", kTrainingGroup, "clip_grad_norm_ before each optimizer step", "",
       [](const Typed& t, Options& o) { o.request.settings.clip_grad = ParseSwitch(t); }},
      {"--ema", "", "", kTrainingGroup, "keep an average of the model beside it (AveragedModel)",
       "", [](const Typed& t, Options& o) { o.request.settings.ema = ParseSwitch(t); }},
      {"--optimizer-in-backward", "", "", kTrainingGroup,
       "each parameter has an optimizer, which steps and drops its gradient as soon as backward "
       "has "
       "made it",
       "",
       [](const Typed& t, Options& o) {
         o.request.settings.optimizer_in_backward = ParseSwitch(t);
       }},
      {"--mode", "", "M", kRunGroup,
       Choices(kModes) + "; of estimate and max-batch also generate: tokens one by one",
       ToString(settings.mode), SetMode},
      {"--loss", "", "L", kRunGroup, Choices(kLosses), ToString(settings.loss),
       [](const Typed& t, Options& o) { o.request.settings.loss = ParseChoice(t, kLosses); }},
      {"--label-smoothing", "", "", kTrainingGroup,
       "the loss of classes smooths its labels (label_smoothing=0.1)", "",
       [](const Typed& t, Options& o) { o.request.settings.label_smoothing = ParseSwitch(t); }},
      {"--mixup", "", "", kTrainingGroup,
       "timm's loop mixes images and their labels (mixup and cutmix), whose loss is that of soft "
       "targets",
       "", [](const Typed& t, Options& o) { o.request.settings.mixup = ParseSwitch(t); }},
      {"--loss-output", "", "NAME", kFileGroup, "the output that the loss takes",
       "the first of floats",
       [](const Typed& t, Options& o) {
         SetText(t, "the name of an output", o.request.settings.loss_output);
       }},
      {"--labels", "", "NAME", kFileGroup,
       "the input that serves as labels, such as decoder_input_ids", "a tensor of their own",
       [](const Typed& t, Options& o) {
         SetText(t, "the name of an input", o.request.settings.labels);
       }},
      {"--channels-last", "", "", kTrainingGroup,
       "kernels and pictures have their channels last in memory "
       "(memory_format=torch.channels_last)",
       "", [](const Typed& t, Options& o) { o.request.settings.channels_last = ParseSwitch(t); }},
      {"--cudnn-benchmark", "", "", kTrainingGroup,
       "the first step tries cuDNN's plans (torch.backends.cudnn.benchmark = True)", "",
       [](const Typed& t, Options& o) { o.request.settings.cudnn_benchmark = ParseSwitch(t); }},
      {"--batch-norm", "", "B", kFileGroup,
       Choices(kBatchNormUses) +
           ": folded batch norms are put back where they show, nowhere, or behind every "
           "convolution with a bias",
       "auto",
       [](const Typed& t, Options& o) {
         o.request.settings.batch_norm = ParseChoice(t, kBatchNormUses);
       }},
      {"--dropout", "", "P", kFileGroup,
       "puts lost dropout back; 0 for none; GLOB=P at nodes or modules; repeatable", "auto",
       SetDropout, true},
      {"--assume", "", "WHAT=yes", kFileGroup,
       "what a file has lost: conv-bias, in-place-dropout, tied-head; repeatable", "auto",
       SetAssumed, true},
      {"--attention", "", "A", kTrainingGroup,
       "kernels of scaled_dot_product_attention, or written out as transformers' eager attention: "
       "sdpa | eager",
       "sdpa",
       [](const Typed& t, Options& o) {
         o.request.settings.attention = ParseChoice(t, kAttentionUses);
       }},
      {"--in-place", "", "I", kFileGroup,
       Choices(kInPlaceUses) +
           ": activations and sums write over their input wherever that is legal (always), where "
           "file or library say so (known), or never; auto guesses always, but for activations of "
           "models without convolutions, and takes the worse where it matters",
       "auto",
       [](const Typed& t, Options& o) {
         o.request.settings.in_place = ParseChoice(t, kInPlaceUses);
       }},
      {"--out-of-place", "", "GLOB", kFileGroup,
       "nodes or modules that never do so, such as */Add; repeatable", "",
       [](const Typed& t, Options& o) {
         SetText(t, "names of nodes or modules such as */Add",
                 o.request.settings.out_of_place.emplace_back());
       },
       true},
      {"--zero-grad", "", "Z", kTrainingGroup, Choices(kZeroGrads) + " (set_to_none=False)",
       ToString(settings.loop.zero_grad),
       [](const Typed& t, Options& o) {
         o.request.settings.loop.zero_grad = ParseChoice(t, kZeroGrads);
         o.request.zero_grad_is_given = true;
       }},
      {"--hold-outputs", "", "", kTrainingGroup, "the loop keeps the model's outputs in a name", "",
       [](const Typed& t, Options& o) { o.request.settings.loop.hold_outputs = ParseSwitch(t); }},
      {"--drop-batch", "", "", kTrainingGroup,
       "the loop drops a batch before the next one comes to the device (for x in host's: x = "
       "x.to(device))",
       "", [](const Typed& t, Options& o) { o.request.settings.loop.drop_batch = ParseSwitch(t); }},
      {"--same-batch", "", "", kTrainingGroup,
       "a benchmark: a function runs one batch in all steps, whose outputs go when it returns", "",
       [](const Typed& t, Options& o) { o.request.settings.loop.same_batch = ParseSwitch(t); }},
      {"--prefetch", "", "N", kTrainingGroup, "batches on the device beyond the current one", "0",
       [](const Typed& t, Options& o) {
         o.request.settings.loop.prefetch = ParseWhole(t, 0, kMostBatches);
       }},
      {"--accumulate", "", "N", kTrainingGroup, "micro-batches of --batch for one optimizer step",
       "1",
       [](const Typed& t, Options& o) {
         o.request.settings.loop.accumulate = ParseWhole(t, 1, kMostBatches);
       }},
      {"--eval-batch", "", "N", kTrainingGroup,
       "samples that the loop evaluates at once behind each step, without gradients", "",
       [](const Typed& t, Options& o) {
         o.request.settings.evaluation.batch = ParseWhole(t, 1, kMostEvaluated);
       }},
      {"--eval-keep", "", "N", kTrainingGroup,
       "batches of evaluation whose predictions stay on the device (eval_accumulation_steps)", "0",
       [](const Typed& t, Options& o) {
         o.request.settings.evaluation.keep = ParseWhole(t, 0, kMostBatches);
       }},
      {"--freeze", "", "GLOB", kTrainingGroup,
       "parameters without gradient, such as layer1.*; repeatable", "",
       [](const Typed& t, Options& o) {
         SetText(t, "names of parameters such as layer1.*",
                 o.request.settings.freeze.emplace_back());
       },
       true},
      {"--lora", "", "RANK[:NAMES]", kTrainingGroup,
       "adapters of that rank beside frozen layers: those of such names (q_proj,v_proj; globs too; "
       "all-linear), or peft's for the type of model",
       "", SetLora},
      {"--lora-dropout", "", "P", kTrainingGroup, "of what the adapters are given", "0",
       SetLoraDropout},
      {"--dora", "", "", kTrainingGroup,
       "DoRA: adapters with magnitudes of their own (use_dora=True)", "",
       [](const Typed& t, Options& o) { o.request.settings.lora.dora = ParseSwitch(t); }},
      {"--quantize", "", "Q[:NAMES]", kTrainingGroup,
       Choices(kQuantizations) +
           ": frozen linear layers as bitsandbytes keeps them: those of such names, or all but the "
           "last one and the output embedding",
       "none", SetQuantize},
      {"--checkpoint", "", "GLOB", kTrainingGroup,
       "modules whose activations backward computes again, such as layer1.*, or auto: the blocks "
       "that repeat, or every=N: each N-th of them; repeatable",
       "", SetCheckpoint, true},
      {"--checkpoint-reentrant", "", "", kTrainingGroup,
       "as torch.utils.checkpoint(use_reentrant=True)", "",
       [](const Typed& t, Options& o) {
         o.request.settings.checkpoint_reentrant = ParseSwitch(t);
       }},
      {"--compile", "", "C", kTrainingGroup,
       Choices(kCompilings) +
           ": the model under torch.compile: what Inductor keeps is modelled, and verdicts take "
           "eager's plan where that is worse; as-eager: that plan",
       ToString(settings.compile),
       [](const Typed& t, Options& o) {
         o.request.settings.compile = ParseChoice(t, kCompilings);
       }},
      {"--cuda-graphs", "", "", kTrainingGroup,
       "what is compiled is recorded and replayed, from memory of its own "
       "(torch.compile(mode=\"reduce-overhead\"))",
       "", [](const Typed& t, Options& o) { o.request.settings.cuda_graphs = ParseSwitch(t); }},
      {"--note", "", "TEXT", kRunGroup, "what you assume, told with the answer; repeatable", "",
       [](const Typed& t, Options& o) {
         SetText(t, "a sentence", o.request.assumptions.emplace_back());
       },
       true},
  };
}

std::vector<Flag> AllocatorFlags() {
  constexpr std::string_view kGroup = kLibrariesGroup;
  return {
      // Before --alloc-conf, whose options it decides.
      {"--framework", "", "F", kGroup,
       fmt::format("whose allocator and workspaces: {}", fmt::join(FrameworkNames(), " | ")),
       "that which wrote the file, else the default", SetFramework},
      {"--alloc-conf", "", "CONF", kGroup,
       "as PYTORCH_ALLOC_CONF, such as expandable_segments:True", "",
       [](const Typed& t, Options& o) {
         // Without a version that is given, the file's may be any (asked_of_file.h).
         const TrainingSettings& settings = o.request.settings;
         const bool is_given = settings.framework_choice.basis == FrameworkBasis::kGiven;
         o.request.alloc_conf =
             ParseAllocConf(t, is_given ? settings.framework : NewestFramework());
       }},
      {"--cublas-conf", "", "CONF", kGroup,
       "as CUBLAS_WORKSPACE_CONFIG, such as :4096:8; :0:0 for none", "",
       [](const Typed& t, Options& o) { o.request.settings.cublas = ParseCublasConf(t); }},
      {"--overhead", "", "SIZE", kGroup, "CUDA context and kernels, such as 450MiB; 0 is allowed",
       "the card's",
       [](const Typed& t, Options& o) { o.request.overhead_bytes = ParseBytes(t.text, t.place); }},
      {"--calibration", "", "FILE", kGroup,
       "what was measured on the card: its context, cuDNN's workspaces; none for nothing",
       "./onnxfit.calibration.json in estimate, max-batch, report and verify",
       [](const Typed& t, Options& o) {
         SetText(t, "the path of a file, or none", o.calibration);
       }},
  };
}

}  // namespace

std::vector<Flag> RunFlags() {
  std::vector<Flag> flags = LoopFlags();
  for (Flag& flag : RankFlags()) flags.push_back(std::move(flag));
  for (Flag& flag : AllocatorFlags()) flags.push_back(std::move(flag));
  return flags;
}

std::vector<Flag> NumbersFlags() {
  constexpr std::string_view kGroup = kNumbersGroup;
  constexpr Commands kOf = Only(Command::kEstimate);
  return {
      {"--params", "", "N", kGroup, "parameters of a transformer, such as 175e9 or 7B", "",
       [](const Typed& t, Options& o) { o.numbers.parameters = ParseCount(t, kMostParameters); },
       false, false, kOf},
      {"--layers", "", "N", kGroup, "how many layers it has", "",
       [](const Typed& t, Options& o) { o.numbers.layers = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--hidden", "", "N", kGroup, "the width between them", "",
       [](const Typed& t, Options& o) { o.numbers.hidden = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--heads", "", "N", kGroup, "heads of attention", "of 128, of 64 below hidden 4096",
       [](const Typed& t, Options& o) { o.numbers.heads = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--seq", "", "N", kGroup, "tokens of a sample", "2048",
       [](const Typed& t, Options& o) { o.numbers.sequence = ParseWhole(t, 1, kMostUnits); }, false,
       false, kOf},
      {"--vocab", "", "N", kGroup, "tokens that there are", "50257",
       [](const Typed& t, Options& o) { o.numbers.vocabulary = ParseWhole(t, 1, kMostUnits); },
       false, false, kOf},
  };
}

}  // namespace onnxfit

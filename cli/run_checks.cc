// What flags of a run leave to its loop, and what they cannot mean together.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/options.h"
#include "cli/version_checks.h"
#include "estimator/base/error.h"
#include "estimator/libraries/libraries.h"
#include "estimator/optimizers/optimizer_rule.h"
#include "estimator/program/checkpointed_spans.h"
#include "estimator/training/evaluation.h"
#include "estimator/transforms/tensor_parallel.h"

namespace onnxfit {
namespace {

// Flags that say something about another one alone.
struct NeededFlag {
  std::string_view flag;
  std::string_view needs;
};

constexpr std::string_view kCheckpointFlag = "--checkpoint";

constexpr NeededFlag kNeeded[] = {{"--lora-dropout", "--lora"},
                                  {"--dora", "--lora"},
                                  {"--checkpoint-reentrant", "--checkpoint"},
                                  {"--world", "--strategy"},
                                  {"--devices", "--strategy"},
                                  {"--sequence-parallel", "--tensor-parallel"},
                                  {"--ddp-views", "--strategy"},
                                  {"--ddp-static-graph", "--strategy"},
                                  {"--no-sync", "--strategy"},
                                  {"--no-sync", "--accumulate"},
                                  {"--shard-world", "--strategy"},
                                  {"--fsdp-modules", "--strategy"},
                                  {"--fsdp-keep", "--strategy"},
                                  {"--fsdp-reshard", "--strategy"},
                                  {"--fsdp-offload", "--strategy"},
                                  {"--fsdp-policy", "--strategy"},
                                  {"--reduce-bucket", "--strategy"},
                                  {"--overlap-comm", "--strategy"},
                                  {"--schedule", "--strategy"},
                                  {"--stage", "--strategy"},
                                  {"--split-at", "--strategy"},
                                  {"--drop-outputs", "--strategy"},
                                  {"--provider", "--runtime"},
                                  {"--ram", "--runtime"},
                                  {"--session", "--runtime"},
                                  {"--provider-option", "--runtime"},
                                  {"--io-binding", "--runtime"}};

void RefuseAlone(const std::vector<std::string>& given) {
  const auto is_given = [&](std::string_view flag) {
    return std::ranges::find(given, flag) != given.end();
  };
  for (const NeededFlag& row : kNeeded) {
    if (!is_given(row.flag) || is_given(row.needs)) continue;
    throw Error({.where = std::string(row.flag),
                 .text = fmt::format("expected beside {}, which is missing", row.needs)});
  }
}

void CheckGenerates(const Options& options) {
  if (options.generation.is_asked) return;
  for (const std::string_view flag : {"--prompt", "--new", "--cache", "--beams"}) {
    if (std::ranges::find(options.given, flag) == options.given.end()) continue;
    throw Error(
        {.where = std::string(flag), .text = "expected beside --mode generate, which is missing"});
  }
}

// Which modules every=N counts is clear where it stands alone.
void CheckCheckpoints(const std::vector<std::string>& globs) {
  const bool counts = std::ranges::any_of(
      globs, [](const std::string& glob) { return glob.starts_with(kEveryCheckpoint); });
  if (!counts || globs.size() == 1) return;
  throw Error({.where = std::string(kCheckpointFlag),
               .text = fmt::format("expected every=N alone, found {} more", globs.size() - 1)});
}

std::vector<Optimizer> OptimizersOf(const Options& options) {
  const std::vector<Optimizer>& swept = options.sweep.optimizers;
  return swept.empty() ? std::vector{options.request.settings.optimizer} : swept;
}

bool IsGiven(std::string_view flag, const Options& options) {
  return std::ranges::find(options.given, flag) != options.given.end();
}

// Of ultralytics' trainer: micro-batches add up to nbs samples, round(nbs / batch) of them.
constexpr int64_t kNominalSamples = 64;
bool FillsStepAtOnce(int64_t batch) {
  return std::nearbyint(static_cast<double>(kNominalSamples) / static_cast<double>(batch)) < 2;
}

// Two micro-batches take what more of them do.  Of batches that are not known: the worse.
int64_t MicroBatchesOf(const Options& options) {
  std::vector<int64_t> batches = options.sweep.batches;
  if (options.request.binding.batch) batches.push_back(*options.request.binding.batch);
  const bool is_known = !batches.empty() && options.command != Command::kMaxBatch;
  return is_known && std::ranges::all_of(batches, FillsStepAtOnce) ? 1 : 2;
}

// What a library's loop takes where nobody says another: ultralytics 8.4.190, cfg/default.yaml
// (amp, weight_decay, nbs; optimizer=auto, which is AdamW in short runs: as many states of
// matrices, more of vectors, and less in its step).
void TakeDefaultsOfLoop(Options& options) {
  TrainingSettings& settings = options.request.settings;
  if (settings.loop.library != LoopLibrary::kUltralytics || settings.mode == Mode::kEval) return;
  if (!IsGiven("--precision", options)) settings.precision = Precision::kAmpFp16;
  if (!IsGiven("--optimizer", options)) settings.optimizer = Optimizer::kMuSgd;
  if (!IsGiven("--optimizer-args", options) && options.sweep.optimizers.empty())
    settings.optimizer_args = ArgsTaken(settings.optimizer, kWeightDecay | kNesterov);
  if (!IsGiven("--accumulate", options)) settings.loop.accumulate = MicroBatchesOf(options);
}

// Of optimizers that work on matrices, ranks have whole ones.
void CheckMatrices(const Options& options) {
  const Strategy strategy = options.request.settings.ranks.strategy;
  if (strategy == Strategy::kNone || strategy == Strategy::kDdp) return;
  for (const Optimizer optimizer : OptimizersOf(options)) {
    constexpr Optimizer kOfMatrices[] = {Optimizer::kMuSgd, Optimizer::kSoap, Optimizer::kGaLore};
    if (std::ranges::find(kOfMatrices, optimizer) == std::end(kOfMatrices)) continue;
    throw Error({.where = "--strategy",
                 .text = fmt::format("expected ddp, or none, with {}, found {}",
                                     ToString(optimizer), ToString(strategy))});
  }
}

// MuSGD tells parameters apart as ultralytics does.
void CheckMuSgd(const Options& options) {
  const std::vector<Optimizer> optimizers = OptimizersOf(options);
  if (std::ranges::find(optimizers, Optimizer::kMuSgd) == optimizers.end()) return;
  const ParamGroups groups = options.request.settings.param_groups;
  if (groups == ParamGroups::kOfLoop || groups == ParamGroups::kUltralytics) return;
  throw Error(
      {.where = "--param-groups",
       .text = fmt::format("expected ultralytics, whose musgd is, found {}", ToString(groups))});
}

// GaLore's groups are those of its layers, which adapters would freeze.
void CheckGaLore(const Options& options) {
  const std::vector<Optimizer> optimizers = OptimizersOf(options);
  const bool is_asked = std::ranges::find(optimizers, Optimizer::kGaLore) != optimizers.end();
  const auto refuse = [](std::string_view flag, std::string text, std::string hint) {
    throw Error({.where = std::string(flag), .text = std::move(text), .hint = std::move(hint)});
  };
  if (!is_asked && IsGiven("--galore", options))
    refuse("--galore", "expected beside -o galore, which is missing", "-o galore");
  if (!is_asked) return;
  const TrainingSettings& settings = options.request.settings;
  if (settings.param_groups != ParamGroups::kOfLoop)
    refuse("--param-groups",
           fmt::format("expected galore's own, found {}", ToString(settings.param_groups)), "");
  if (settings.lora.rank > 0)
    refuse("--lora", "expected without -o galore, which trains the layers themselves", "-o adamw");
}

// Groups are of an optimizer that has all parameters.
void CheckGroups(const Options& options) {
  const ParamGroups groups = options.request.settings.param_groups;
  if (groups == ParamGroups::kOfLoop || groups == ParamGroups::kOne) return;
  const Strategy strategy = options.request.settings.ranks.strategy;
  if (strategy == Strategy::kZeroRedundancy || IsOfDeepSpeed(strategy)) {
    throw Error({.where = "--param-groups",
                 .text = fmt::format("expected one group with --strategy {}, which gives ranks "
                                     "their shares by group, found {}",
                                     ToString(strategy), ToString(groups)),
                 .hint = "--param-groups one"});
  }
  const std::vector<Optimizer> optimizers = OptimizersOf(options);
  if (std::ranges::find(optimizers, Optimizer::kMuon) == optimizers.end()) return;
  throw Error({.where = "--param-groups",
               .text = "expected an optimizer that takes all parameters, found muon",
               .hint = "-o adamw"});
}

// Each of a table's optimizers takes the arguments that are told.
void CheckOptimizers(const Options& options) {
  const TrainingSettings& settings = options.request.settings;
  for (const Optimizer optimizer : OptimizersOf(options)) {
    const uint8_t taken = ArgsTaken(optimizer, settings.optimizer_args);
    const uint8_t others = settings.optimizer_args & static_cast<uint8_t>(~taken);
    if (others == 0) continue;
    throw Error({.where = "--optimizer-args",
                 .text = fmt::format("expected what {} takes, found {}", ToString(optimizer),
                                     OptimizerArgsText(others)),
                 .hint = (others & kAmsgrad) != 0 ? "-o adam or adamw" : "-o sgdm"});
  }
}

// Labels that are smoothed are of classes; what a library does by itself ends where they are not.
void CheckSmoothing(TrainingSettings& settings, const std::vector<std::string>& given) {
  if (!settings.label_smoothing) return;
  const bool is_said = std::ranges::find(given, "--label-smoothing") != given.end();
  if (!is_said && !IsOfClasses(settings.loss)) settings.label_smoothing = false;
  if (settings.label_smoothing && !IsOfClasses(settings.loss)) {
    throw Error(
        {.where = "--label-smoothing",
         .text = fmt::format("expected a loss of classes, found {}", ToString(settings.loss)),
         .hint = "--loss cross-entropy"});
  }
}

// What timm's train.py mixes are images for classes.
void CheckMixup(const TrainingSettings& settings) {
  if (!settings.mixup) return;
  if (settings.loop.library == LoopLibrary::kTimm && settings.loss == Loss::kCrossEntropy &&
      settings.labels.empty() && settings.evaluation.batch == 0)
    return;
  throw Error({.where = "--mixup",
               .text = "expected --loop timm with its own loss, and no --labels or --eval-batch",
               .hint = "--loop timm"});
}

// What only ranks of one kind have.
struct RankFlag {
  std::string_view flag;
  bool is_set;
  std::vector<Strategy> strategies;
};

void CheckRanks(const RankSettings& ranks, const std::vector<std::string>& given) {
  using enum Strategy;
  const auto is_given = [&](std::string_view flag) {
    return std::ranges::find(given, flag) != given.end();
  };
  const RankFlag flags[] = {
      {"--reduce-bucket", is_given("--reduce-bucket"), {kZero1, kZero2, kZero3}},
      {"--prefetch-bucket", is_given("--prefetch-bucket"), {kZero3}},
      {"--persistence-threshold", is_given("--persistence-threshold"), {kZero3}},
      {"--overlap-comm", ranks.overlap_comm, {kZero1, kZero2}},
      {"--zero-offload", ranks.zero_offload, {kZero1, kZero2, kZero3}},
      {"--ddp-views", ranks.gradients_as_views, {kDdp, kZeroRedundancy}},
      {"--ddp-static-graph", ranks.static_graph, {kDdp, kZeroRedundancy}},
      {"--no-sync", ranks.no_sync, {kDdp, kZeroRedundancy, kFsdp, kFsdpHybrid}},
      {"--shard-world", is_given("--shard-world"), {kFsdpHybrid}},
      {"--fsdp-modules", !ranks.fsdp_modules.empty(), {kFsdp, kFsdpHybrid}},
      {"--fsdp-keep", ranks.fsdp_keep, {kFsdp, kFsdpHybrid}},
      {"--fsdp-reshard", ranks.fsdp_reshard > 0, {kFsdp, kFsdpHybrid}},
      {"--fsdp-offload", ranks.fsdp_offload, {kFsdp, kFsdpHybrid}},
      {"--fsdp-policy", ranks.fsdp_policy, {kFsdp, kFsdpHybrid}},
      {"--schedule", is_given("--schedule"), {kPipeline}},
      {"--stage", ranks.pipeline.stage.has_value(), {kPipeline}},
      {"--drop-outputs", ranks.pipeline.drops_outputs, {kPipeline}},
      {"--split-at", !ranks.pipeline.begins.empty(), {kPipeline}}};
  for (const auto& [flag, is_set, strategies] : flags) {
    if (!is_set || std::ranges::find(strategies, ranks.strategy) != strategies.end()) continue;
    std::vector<std::string_view> names;
    for (const Strategy strategy : strategies) names.push_back(ToString(strategy));
    throw Error({.where = std::string(flag),
                 .text = fmt::format("expected with --strategy {}, found {}",
                                     fmt::join(names, " or "), ToString(ranks.strategy))});
  }
}

// One rank shares nothing.
void CheckShared(const RankSettings& ranks) {
  if (ranks.tensor_parallel > 1 || !(ranks.shares_head || ranks.shares_tokens)) return;
  throw Error({.where = ranks.shares_tokens ? "--sequence-parallel" : "--tensor-parallel",
               .text = fmt::format("expected {}2 ranks or more, found 1",
                                   ranks.shares_tokens ? "--tensor-parallel of " : "")});
}

// Groups of ranks are of one size.
void CheckMeshes(const RankSettings& ranks, bool finds_world,
                 const std::vector<std::string>& given) {
  const int64_t sharing = SharingRanks(ranks);
  const auto is_given = [&](std::string_view flag) {
    return std::ranges::find(given, flag) != given.end();
  };
  const auto refuse = [](const char* flag, const std::string& text) {
    throw Error({.where = flag, .text = text});
  };
  if (is_given("--devices") && is_given("--world"))
    refuse("--devices", "expected no --world: it counts the ranks");
  if (is_given("--devices") && ranks.tensor_parallel > 1)
    refuse("--devices", "expected no --tensor-parallel, whose ranks are more than --world's");
  if (ranks.strategy == Strategy::kPipeline && ranks.pipeline.stage.value_or(0) >= ranks.world)
    refuse("--stage", fmt::format("expected a stage below --world {}, found {}", ranks.world,
                                  *ranks.pipeline.stage));
  if (ranks.fsdp_reshard > 0 && ranks.fsdp_keep)
    refuse("--fsdp-reshard", "expected no --fsdp-keep");
  if (finds_world && (ranks.fsdp_reshard > 0 || ranks.strategy == Strategy::kFsdpHybrid ||
                      ranks.strategy == Strategy::kPipeline)) {
    refuse("--world", "auto: expected ranks that all share the model, at all times");
  }
  if (ranks.strategy == Strategy::kFsdpHybrid && ranks.world % sharing != 0) {
    refuse("--shard-world",
           fmt::format("expected a divisor of --world {}, found {}{}", ranks.world, sharing,
                       is_given("--shard-world") ? "" : ", which it is where it is not told"));
  }
  if (ranks.fsdp_reshard > 0 && sharing % ranks.fsdp_reshard != 0) {
    refuse("--fsdp-reshard", fmt::format("expected a divisor of the {} ranks that share the model, "
                                         "found {}",
                                         sharing, ranks.fsdp_reshard));
  }
}

// Loops of libraries that drop gradients behind each step do so whatever users want.
void CheckZeroGrad(LoopLibrary library, const std::vector<std::string>& given) {
  const bool is_theirs = DoesLoop(library, LoopFact::kDropsGradients);
  if (!is_theirs || std::ranges::find(given, "--zero-grad") == given.end()) return;
  throw Error({.where = "--zero-grad",
               .text = fmt::format("expected a loop that does not drop gradients behind each step "
                                   "itself, found --loop {}",
                                   ToString(library)),
               .hint = "--loop plain"});
}

// What compiled models do beside these is not known.
void CheckCompiled(const TrainingSettings& settings) {
  if (settings.cuda_graphs && settings.compile == Compiling::kNone) {
    throw Error({.where = "--cuda-graphs",
                 .text = "expected what is compiled, found --compile none",
                 .hint = "--compile inductor --cuda-graphs"});
  }
  if (settings.compile == Compiling::kNone) return;
  const std::string_view flag = !settings.checkpoint.empty()                    ? kCheckpointFlag
                                : settings.ranks.strategy != Strategy::kNone    ? "--strategy"
                                : settings.quantize.kind != Quantization::kNone ? "--quantize"
                                                                                : "";
  if (flag.empty()) return;
  throw Error({.where = "--compile",
               .text = fmt::format(
                   "expected without {}, beside which compiled code is not known here", flag),
               .hint = "--compile none"});
}

// Beside which the layouts of tensors are not known here.
void CheckMemoryFormat(const TrainingSettings& settings) {
  if (!settings.channels_last) return;
  const Strategy strategy = settings.ranks.strategy;
  std::string_view flag;
  const bool is_shared = IsFullySharded(strategy) || IsOfDeepSpeed(strategy);
  if (is_shared || strategy == Strategy::kPipeline) flag = "--strategy";
  if (settings.quantize.kind != Quantization::kNone) flag = "--quantize";
  if (settings.compile != Compiling::kNone) flag = "--compile";
  if (flag.empty()) return;
  throw Error({.where = "--channels-last",
               .text = fmt::format("expected without {}, beside which it is not known here", flag),
               .hint = "--channels-last=no: it changes copies, seldom sizes"});
}

// Plans are tried before graphs are captured, whose pool then keeps what that took: Inductor turns
// the emptying off (disable_conv_cache_emptying of torch/_inductor/cudagraph_trees.py, 2.11.0).
void CheckBenchmark(const TrainingSettings& settings) {
  if (!settings.cudnn_benchmark || !settings.cuda_graphs) return;
  throw Error({.where = "--cudnn-benchmark",
               .text = "expected without --cuda-graphs, beside which it is not known here",
               .hint = "--cuda-graphs=no"});
}

// Predictions are of an evaluation, which not every run has.
void CheckEvaluated(const TrainingSettings& settings) {
  const EvaluationSettings& evaluation = settings.evaluation;
  if (settings.mode == Mode::kEval) return;
  if (evaluation.batch > 0) return CheckEvaluation(settings);
  if (evaluation.keep == 0) return;
  throw Error({.where = "--eval-keep",
               .text = "expected a batch of evaluation beside it",
               .hint = "--eval-batch N"});
}

// Modules compute in the policy's type.
void ApplyPolicy(Options& options) {
  TrainingSettings& settings = options.request.settings;
  if (!settings.ranks.fsdp_policy) return;
  if (const size_t count = options.sweep.precisions.size(); count > 0) {
    throw Error({.where = "--fsdp-policy",
                 .text = fmt::format("expected a model in fp32, which it casts, found a list of {} "
                                     "precisions",
                                     count),
                 .hint = "without --precision"});
  }
  if (settings.precision != Precision::kFp32) {
    throw Error({.where = "--fsdp-policy",
                 .text = fmt::format("expected a model in fp32, which it casts, found -p {}",
                                     ToString(settings.precision))});
  }
  settings.precision = Precision::kBf16;
}

// Where nobody names a precision, types are the file's; autocast is around them.
void KeepTypes(Options& options) {
  TrainingSettings& settings = options.request.settings;
  const bool is_named = IsGiven("--precision", options) || settings.precision != Precision::kFp32;
  if (!is_named) settings.keeps_types = !settings.ranks.fsdp_policy;
  if (AutocastType(settings.precision) != DType::kUndefined) settings.keeps_types = true;
  if (!options.fp32_weights) return;
  settings.keeps_types = false;
  const bool is_table = !options.sweep.precisions.empty();
  if (ParameterType(settings.precision) == DType::kFloat32 && !is_table) return;
  throw Error({.where = "--fp32-weights",
               .text = fmt::format("expected fp32, amp-bf16 or amp-fp16 beside it, found {}",
                                   is_table ? "several" : ToString(settings.precision)),
               .hint = "-p amp-bf16"});
}

}  // namespace

void CheckRun(Options& options) {
  if (options.command == Command::kRun) return;  // the program says all of that
  RefuseAlone(options.given);
  CheckGenerates(options);
  TakeDefaultsOfLoop(options);
  CheckCheckpoints(options.request.settings.checkpoint);
  CheckRanks(options.request.settings.ranks, options.given);
  CheckMeshes(options.request.settings.ranks, options.finds_world, options.given);
  CheckShared(options.request.settings.ranks);
  CheckGroups(options);
  CheckMatrices(options);
  CheckMuSgd(options);
  CheckGaLore(options);
  CheckOptimizers(options);
  CheckSmoothing(options.request.settings, options.given);
  CheckMixup(options.request.settings);
  CheckZeroGrad(options.request.settings.loop.library, options.given);
  CheckCompiled(options.request.settings);
  CheckVersion(options.request.settings);
  CheckMemoryFormat(options.request.settings);
  CheckBenchmark(options.request.settings);
  CheckEvaluated(options.request.settings);
  CheckTensorParallel(options.request.settings);
  KeepTypes(options);
  ApplyPolicy(options);
}

}  // namespace onnxfit

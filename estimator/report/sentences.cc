#include "estimator/report/sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/calibration.h"
#include "estimator/report/estimate_parts.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

using Items = std::vector<std::string>;

void AddAll(std::string_view flag, const std::vector<std::string>& values, Items& items) {
  for (const std::string& value : values) items.push_back(fmt::format("{} {}", flag, value));
}

// As flags take them behind a colon.
std::string TargetsText(const std::vector<std::string>& targets) {
  return fmt::format("{}{}", targets.empty() ? "" : ":", fmt::join(targets, ","));
}

void AddUpdate(const TrainingSettings& settings, Items& items) {
  if (settings.loop.library != LoopLibrary::kPlain) {
    items.push_back(fmt::format("loop {}", ToString(settings.loop.library)));
  }
  if (settings.optimizer_impl) {
    items.push_back(fmt::format("optimizer-impl {}", ToString(*settings.optimizer_impl)));
  }
  if (settings.optimizer_args != 0) {
    items.push_back(fmt::format("optimizer-args {}", OptimizerArgsText(settings.optimizer_args)));
  }
  if (settings.optimizer == Optimizer::kGaLore) {
    const GaLoreSettings& galore = settings.galore;
    items.push_back(fmt::format("galore {}{}", galore.rank, TargetsText(galore.targets)));
  }
  if (settings.mixup) items.emplace_back("mixup");
  if (settings.param_groups != ParamGroups::kOfLoop) {
    items.push_back(fmt::format("param-groups {}", ToString(settings.param_groups)));
  }
  if (settings.clip_grad) items.emplace_back("clip-grad");
  if (settings.ema) items.emplace_back("ema");
  if (settings.optimizer_in_backward) items.emplace_back("optimizer-in-backward");
}

void AddQuantize(const QuantizeSettings& quantize, Items& items) {
  if (quantize.kind == Quantization::kNone) return;
  items.push_back(
      fmt::format("quantize {}{}", ToString(quantize.kind), TargetsText(quantize.targets)));
}

void AddLora(const LoraSettings& lora, Items& items) {
  if (lora.rank == 0) return;
  items.push_back(fmt::format("lora {}{}", lora.rank, TargetsText(lora.targets)));
  if (lora.dropout > 0) items.push_back(fmt::format("lora-dropout {}", lora.dropout));
  if (lora.dora) items.emplace_back("dora");
}

void AddRanks(const RankSettings& ranks, Items& items) {
  if (ranks.strategy == Strategy::kNone) return;
  items.push_back(fmt::format("strategy {}", ToString(ranks.strategy)));
  items.push_back(fmt::format("world {}", ranks.world));
  if (ranks.strategy == Strategy::kFsdpHybrid) {
    items.push_back(fmt::format("shard-world {}", ranks.shard_world));
  }
  if (ranks.gradients_as_views) items.emplace_back("ddp-views");
  if (ranks.static_graph) items.emplace_back("ddp-static-graph");
  if (ranks.no_sync) items.emplace_back("no-sync");
  if (!ranks.fsdp_modules.empty()) {
    items.push_back(fmt::format("fsdp-modules {}", fmt::join(ranks.fsdp_modules, ", ")));
  }
  if (IsOfDeepSpeed(ranks.strategy)) {
    items.push_back(fmt::format("reduce-bucket {}", ranks.reduce_bucket));
  }
  if (ranks.strategy == Strategy::kPipeline) {
    items.push_back(fmt::format("schedule {}", ToString(ranks.pipeline.schedule)));
    if (ranks.pipeline.stage.has_value())
      items.push_back(fmt::format("stage {}", *ranks.pipeline.stage));
    if (!ranks.pipeline.begins.empty())
      items.push_back(fmt::format("split-at {}", fmt::join(ranks.pipeline.begins, ", ")));
    if (ranks.pipeline.drops_outputs) items.emplace_back("drop-outputs");
  }
  if (ranks.strategy == Strategy::kZero3) {
    items.push_back(fmt::format("prefetch-bucket {}", ranks.prefetch_bucket));
    items.push_back(fmt::format("persistence-threshold {}", ranks.persistence_threshold));
  }
  if (ranks.overlap_comm) items.emplace_back("overlap-comm");
  if (ranks.zero_offload) items.emplace_back("zero-offload");
  if (ranks.fsdp_keep) items.emplace_back("fsdp-keep");
  if (ranks.fsdp_reshard > 0) {
    items.push_back(fmt::format("fsdp-reshard {}", ranks.fsdp_reshard));
  }
  if (ranks.fsdp_offload) items.emplace_back("fsdp-offload");
  if (ranks.fsdp_policy) items.emplace_back("fsdp-policy bf16 (shards in fp32)");
}

// What is there in training alone.
void AddTraining(const TrainingSettings& settings, Items& items) {
  const LoopSettings standard;
  const TrainingSettings standard_settings;
  AddUpdate(settings, items);
  if (settings.loop.zero_grad != standard.zero_grad) {
    items.push_back(fmt::format("zero-grad {}", ToString(settings.loop.zero_grad)));
  }
  if (settings.loop.accumulate != standard.accumulate) {
    items.push_back(fmt::format("accumulate {}", settings.loop.accumulate));
  }
  if (settings.evaluation.batch > 0) {
    items.push_back(fmt::format("eval-batch {}", settings.evaluation.batch));
    if (settings.evaluation.keep > 0)
      items.push_back(fmt::format("eval-keep {}", settings.evaluation.keep));
  }
  AddAll("freeze", settings.freeze, items);
  AddAll("checkpoint", settings.checkpoint, items);
  if (settings.checkpoint_reentrant) items.emplace_back("checkpoint-reentrant");
  if (settings.compile != Compiling::kNone) {
    items.push_back(fmt::format("compile {}", ToString(settings.compile)));
  }
  if (settings.cuda_graphs) items.emplace_back("cuda-graphs");
  AddRanks(settings.ranks, items);
  if (settings.loss != standard_settings.loss) {
    items.push_back(fmt::format("loss {}", ToString(settings.loss)));
  }
  AddQuantize(settings.quantize, items);
  AddLora(settings.lora, items);
  if (settings.label_smoothing) items.emplace_back("label-smoothing");
  if (!settings.loss_output.empty()) items.push_back("loss-output " + settings.loss_output);
  if (!settings.labels.empty()) items.push_back("labels " + settings.labels);
  if (settings.dropout.has_value()) items.push_back(fmt::format("dropout {}", *settings.dropout));
  for (const auto& [glob, p] : settings.placed_dropouts) {
    items.push_back(fmt::format("dropout {}={}", glob, p));
  }
}

// How the file is read.
void AddReading(const TrainingSettings& settings, Items& items) {
  if (settings.batch_norm != BatchNormUse::kAuto) {
    items.push_back(fmt::format("batch-norm {}", ToString(settings.batch_norm)));
  }
  if (settings.channels_last) items.emplace_back("channels-last");
  if (settings.cudnn_benchmark) items.emplace_back("cudnn-benchmark");
  if (settings.attention != AttentionUse::kSdpa) items.emplace_back("attention eager");
  if (settings.in_place != InPlaceUse::kAuto) {
    items.push_back(fmt::format("in-place {}", ToString(settings.in_place)));
  }
  AddAll("out-of-place", settings.out_of_place, items);
  if (settings.assumed.conv_bias) items.emplace_back("assume conv-bias=yes");
  if (settings.assumed.in_place_dropout) items.emplace_back("assume in-place-dropout=yes");
  if (!settings.assumed.tied_head.value_or(true)) items.emplace_back("assume tied-head=no");
}

}  // namespace

std::string SettingsText(const Estimate& estimate) {
  return fmt::format("batch {}, {}", estimate.batch, RunText(estimate.settings, estimate.dims));
}

std::string RunText(const TrainingSettings& settings, const std::map<std::string, int64_t>& dims) {
  std::string text;
  for (const auto& [name, size] : dims) text += fmt::format("{}={}, ", name, size);
  text += fmt::format("{}, ", ToString(settings.precision));
  if (settings.mode == Mode::kEval) return text + "eval";
  if (settings.optimizer == Optimizer::kNone) return text + "no optimizer";
  return text + std::string(ToString(settings.optimizer));
}

std::string ChangesText(const Estimate& estimate) {
  return ChangesText(estimate.settings, estimate.alloc_conf);
}

std::string ChangesText(const TrainingSettings& settings, const std::string& alloc_conf) {
  Items items;
  if (settings.mode == Mode::kTrain) AddTraining(settings, items);
  if (settings.ranks.tensor_parallel > 1) {
    items.push_back(fmt::format("tensor-parallel {}{}", settings.ranks.tensor_parallel,
                                settings.ranks.shares_head ? ":head" : ""));
    if (settings.ranks.shares_tokens) items.emplace_back("sequence-parallel");
  }
  if (settings.loop.hold_outputs) items.emplace_back("hold-outputs");
  if (settings.loop.drop_batch) items.emplace_back("drop-batch");
  if (settings.loop.same_batch) items.emplace_back("same-batch");
  if (settings.loop.prefetch > 0)
    items.push_back(fmt::format("prefetch {}", settings.loop.prefetch));
  AddReading(settings, items);
  const bool is_given = settings.framework_choice.basis == FrameworkBasis::kGiven;
  const bool is_unasked = settings.framework_choice.basis == FrameworkBasis::kUnasked;
  if (is_given || (is_unasked && settings.framework.name != DefaultFramework().name)) {
    items.push_back(fmt::format("framework {}", settings.framework.name));
  }
  if (const SharedCalibration& calibration = settings.device.calibration;
      calibration != nullptr && !calibration->file.empty()) {
    items.push_back("calibration " + calibration->file);
  }
  if (!settings.cublas.text.empty()) items.push_back("cublas-conf " + settings.cublas.text);
  if (!alloc_conf.empty()) items.push_back("alloc-conf " + alloc_conf);
  return fmt::format("{}", fmt::join(items, ", "));
}

// What follows tells verdicts.
namespace {

constexpr size_t kWidestName = 30;

std::string Bullet(std::string_view text, const TextOptions& options) {
  return Wrap("  - ", Clean(text, options.ascii));
}

std::string ShareText(const Share& share) {
  return fmt::format("{} of the card go to the {} first ({})", FormatBytes(share.bytes), share.what,
                     ToString(share.basis));
}

// By how much the worse reading is worse.
std::string ReadingText(const Judgement& judgement) {
  const GuessedUse& guessed = *judgement.guessed;
  const int64_t more = judgement.used_bytes - guessed.used_bytes;
  return fmt::format("what {} says is left open, and the worse is taken: {}({}, {})",
                     judgement.reading,
                     more > 0 ? FormatBytes(more) + " more than is likely " : "not what is likely ",
                     FormatBytes(guessed.used_bytes), VerdictWord(guessed.verdict));
}

std::string SideBySideText(const Judgement& judgement) {
  const int64_t processes = *judgement.processes;
  const int64_t copies = judgement.copies.value_or(0);
  const std::string of_processes =
      processes == 1 ? "one process of this fits"
                     : fmt::format("{} processes of this fit side by side", processes);
  return fmt::format("{}, a context each; or {} of the model in one process, asked in turn",
                     of_processes, copies == 1 ? "one copy" : fmt::format("{} copies", copies));
}

}  // namespace

std::string VerdictWord(Verdict verdict) {
  constexpr std::string_view kWords[] = {"FITS", "TIGHT", "OOM"};
  return std::string(kWords[static_cast<size_t>(verdict)]);
}

std::string_view VerdictPaint(Verdict verdict) {
  constexpr std::string_view kPaints[] = {kGreen, kYellow, kRed};
  return kPaints[static_cast<size_t>(verdict)];
}

std::string NameBeside(std::string_view line, std::string_view name, const TextOptions& options) {
  const std::string_view ellipsis = GlyphsOf(options).ellipsis;
  const size_t taken = std::min(Columns(line), kReportColumns - Columns(ellipsis));
  return CutMiddle(Clean(name, options.ascii), std::min(kReportColumns - taken, kWidestName),
                   ellipsis);
}

std::string InBrackets(int64_t low_bytes, int64_t high_bytes, const Glyphs& glyphs) {
  if (FormatBytes(low_bytes) == FormatBytes(high_bytes)) return "";
  return fmt::format(" ({})", RangeText(low_bytes, high_bytes, glyphs.dash));
}

std::string UsedText(const Judgement& judgement, const Glyphs& glyphs) {
  return fmt::format("{} of {}, {:.1f}%{}", FormatBytes(judgement.used_bytes),
                     FormatBytes(judgement.usable_bytes), 100 * judgement.share(),
                     InBrackets(judgement.low_bytes, judgement.high_bytes, glyphs));
}

std::string TightUpToText(int64_t size, const Judgement& judgement) {
  std::string text = fmt::format("up to {} it is TIGHT", size);
  std::string separator = ": ";
  for (const std::string& reason : judgement.reasons) {
    text += separator + reason;
    separator = "; ";
  }
  return text;
}

std::string FailureText(const Failure& failure) {
  std::string text = failure.step == 0 ? "fails before the first step"
                                       : fmt::format("fails in step {}, {}", failure.step,
                                                     ToString(failure.phase));
  if (!failure.node.empty()) text += ", at " + failure.node;
  text += fmt::format(": {} asked", PyTorchBytes(failure.tried_bytes));
  return failure.short_bytes > 0
             ? text + fmt::format(", {} short", FormatBytes(failure.short_bytes))
             : text;
}

std::string VerdictLine(const JudgedTarget& judged, const TextOptions& options) {
  const Verdict verdict = judged.judgement.verdict;
  const std::string used = UsedText(judged.judgement, GlyphsOf(options));
  const auto line = [&](std::string_view word, std::string_view name) {
    return fmt::format("{} on {}: {}", word, name, used);
  };
  const std::string word = VerdictWord(verdict);
  const std::string name = NameBeside(line(word, ""), judged.target.name, options);
  return line(Painted({word, options.color ? VerdictPaint(verdict) : ""}), name) + "\n";
}

std::string VerdictDetails(const JudgedTarget& judged, const TextOptions& options) {
  const Judgement& judgement = judged.judgement;
  std::string text;
  if (judgement.guessed) text += Bullet(ReadingText(judgement), options);
  if (!judged.target.unusable.empty()) text += Bullet(judged.target.unusable, options);
  if (judgement.fails_at) text += Bullet(FailureText(*judgement.fails_at), options);
  for (const std::string& reason : judgement.reasons) text += Bullet(reason, options);
  for (const Share& share : judged.target.shares) text += Bullet(ShareText(share), options);
  if (judgement.processes && judgement.verdict != Verdict::kOom) {
    text += Bullet(SideBySideText(judgement), options);
  }
  return text;
}

// What follows tells advice.
namespace {

constexpr size_t kWidestFlags = 40;  // wider ones get a line of their own

std::string BatchText(const Advice& advice, const Glyphs& glyphs) {
  if (advice.accumulate == 1) return fmt::format("up to batch {}", *advice.max_batch);
  return fmt::format("{} {} {} a step", advice.accumulate, glyphs.times, *advice.max_batch);
}

// "FITS  10.2 GiB, saves 9.60 GiB", "batch 480".
std::string GainText(const Advice& advice, const TextOptions& options) {
  if (advice.max_batch) return BatchText(advice, GlyphsOf(options));
  if (!advice.judgement) return "";
  const Verdict verdict = advice.judgement->verdict;
  const std::string_view paint = options.color ? VerdictPaint(verdict) : "";
  std::string text = PadRight(VerdictWord(verdict), 5);
  text.replace(0, VerdictWord(verdict).size(), Painted({VerdictWord(verdict), paint}));
  text += "  " + FormatBytes(advice.judgement->used_bytes);
  if (advice.saved_bytes > 0) text += fmt::format(", saves {}", FormatBytes(advice.saved_bytes));
  return text;
}

std::string Entry(const Advice& advice, size_t width, const TextOptions& options) {
  const std::string flags = Clean(advice.flags, options.ascii);
  const std::string gain = GainText(advice, options);
  std::string text;
  if (Columns(flags) <= width) {
    text = fmt::format("{}{}  {}\n", kIndent, PadRight(flags, width), gain);
  } else {
    text = Wrap(kIndent, flags) + fmt::format("{}{}  {}\n", kIndent, std::string(width, ' '), gain);
  }
  const std::string cost = fmt::format("{}: {}", advice.change, advice.cost);
  return text + Wrap("      ", Clean(cost, options.ascii));
}

std::string Sentence(const Advice& advice, const TextOptions& options) {
  const std::string text =
      advice.cost.empty() || !advice.flags.empty() ? advice.why : advice.why + "; " + advice.cost;
  return Wrap("  - ", Clean(text, options.ascii));
}

size_t WidestFlags(const std::vector<Advice>& advice) {
  size_t widest = 0;
  for (const Advice& a : advice) {
    const size_t columns = Columns(a.flags);
    if (a.why.empty() && columns <= kWidestFlags) widest = std::max(widest, columns);
  }
  return widest;
}

}  // namespace

std::string AdviceText(const std::vector<Advice>& advice, const TextOptions& options) {
  if (advice.empty()) return "";
  const bool raises = std::any_of(advice.begin(), advice.end(),
                                  [](const Advice& a) { return a.max_batch.has_value(); });
  std::string text = raises ? "\nWhat would raise it\n" : "\nWhat would make it fit\n";
  const size_t width = WidestFlags(advice);
  std::string sentences;
  size_t shown = 0;
  for (const Advice& a : advice) {
    if (!a.why.empty()) {
      sentences += Sentence(a, options);
    } else if (shown++ < options.rows) {
      text += Entry(a, width, options);
    }
  }
  return TrimLines(text + sentences);
}

}  // namespace onnxfit

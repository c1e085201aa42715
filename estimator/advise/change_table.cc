#include <algorithm>

#include "estimator/advise/changes.h"
#include "estimator/base/error.h"
#include "estimator/operators/dispatch.h"
#include "estimator/optimizers/optimizer_rule.h"
#include "estimator/optimizers/optimizer_step.h"

namespace onnxfit {

// The table of changes.  Those whose flags or cost depend on the model are made by functions, in
// model_changes.cc.

namespace {

bool IsTraining(const AdviceCase& c) { return c.is_training(); }
bool IsFp64(const AdviceCase& c) { return c.request.settings.precision == Precision::kFp64; }
bool IsFp32(const AdviceCase& c) { return c.request.settings.precision == Precision::kFp32; }

// Tensor cores take bf16 from compute capability 8.0 on; before, it is emulated.
bool HasBf16(const AdviceCase& c) { return c.target.device.compute_capability >= 80; }

bool RunsInBf16(const AdviceCase& c) {
  return HasBf16(c) && !HasNoKernelsIn(DType::kBFloat16, c.asked.prediction->program);
}

bool IsWide(const AdviceCase& c) {
  const DType type = ParameterType(c.request.settings.precision);
  return type == DType::kFloat32 || type == DType::kFloat64;
}

bool Has(const AdviceCase& c, OptimizerImpl impl) {
  return HasImpl(c.request.settings.optimizer, impl, c.request.settings.framework);
}

bool Runs(const AdviceCase& c, OptimizerImpl impl) { return ImplOf(c.request.settings) == impl; }

// Nothing waits for all gradients: no scaler, no norm of them, no further micro-batch, no other
// rank.
bool CanStepInBackward(const AdviceCase& c) {
  const TrainingSettings& s = c.request.settings;
  return IsTraining(c) && !s.optimizer_in_backward && s.optimizer != Optimizer::kNone &&
         s.precision != Precision::kAmpFp16 && !s.clip_grad && s.loop.accumulate == 1 &&
         s.loop.library == LoopLibrary::kPlain && s.ranks.strategy == Strategy::kNone;
}

bool CanBeFused(const AdviceCase& c) {
  return IsTraining(c) && !Runs(c, OptimizerImpl::kFused) && Has(c, OptimizerImpl::kFused);
}

// Only where there is none that is fused: that is as small, and faster.
bool CanLoop(const AdviceCase& c) {
  return IsTraining(c) && Runs(c, OptimizerImpl::kForeach) && !Has(c, OptimizerImpl::kFused) &&
         Has(c, OptimizerImpl::kForLoop);
}

// What compiled models do under checkpoints, with packed weights and among ranks is not known.
bool IsEager(const AdviceCase& c) {
  return !IsTraining(c) || c.request.settings.compile == Compiling::kNone;
}

// Whether blocks repeat that a checkpoint can be put around.
bool HasBlocks(const AdviceCase& c) {
  return IsTraining(c) && IsEager(c) && c.request.settings.checkpoint.empty() &&
         HasRepeatedBlocks(*c.asked.prediction);
}

// All parameters learn, of a model of blocks.
bool CanBeAdapted(const AdviceCase& c) {
  const TrainingSettings& s = c.request.settings;
  return IsTraining(c) && s.lora.rank == 0 && s.freeze.empty() &&
         s.quantize.kind == Quantization::kNone && HasRepeatedBlocks(*c.asked.prediction);
}

// Layers that are frozen, or that nobody trains.
bool CanBeQuantized(const AdviceCase& c) {
  const TrainingSettings& s = c.request.settings;
  const bool is_frozen = !IsTraining(c) || s.lora.rank > 0;
  return is_frozen && IsEager(c) && !s.channels_last && s.quantize.kind == Quantization::kNone &&
         HasRepeatedBlocks(*c.asked.prediction);
}

// What ranks have whole.
bool HasReplicas(const AdviceCase& c) {
  const RankSettings& ranks = c.request.settings.ranks;
  return IsTraining(c) && ranks.world > 1 &&
         (ranks.strategy == Strategy::kDdp || ranks.strategy == Strategy::kZeroRedundancy);
}

// A GradScaler reads gradients on the device.
bool CanOffloadShards(const AdviceCase& c) {
  const TrainingSettings& s = c.request.settings;
  return IsTraining(c) && IsFullySharded(s.ranks.strategy) && !s.ranks.fsdp_offload &&
         s.ranks.tensor_parallel == 1 && s.precision != Precision::kAmpFp16;
}

void ShareBy(Strategy strategy, EstimateRequest& r) {
  r.settings.ranks.strategy = strategy;
  if (strategy != Strategy::kFsdp) return;
  r.settings.ranks.gradients_as_views = false;
  r.settings.ranks.static_graph = false;
}

// LoraConfig(r=8) is peft's default (0.21.2, tuners/lora/config.py).
constexpr int64_t kAdviceRank = 8;

void Adapt(EstimateRequest& r) { r.settings.lora.rank = kAdviceRank; }
void Quantize(EstimateRequest& r) { r.settings.quantize.kind = Quantization::kNf4; }

// --- Figures of time ----------------------------------------------------------------------

// One more forward pass, where backward takes twice as long as forward.
constexpr std::string_view kChen = "Chen et al. 2016, arXiv:1604.06174";
// "Optimization flags", Llama 3.2 3B on an A100, tokens a second: 7210 and with the optimizer in
// backward 7309; 7301 and with 8-bit AdamW 6960; LoRA 8210.
// "Memory and training speed", Llama 3.1 8B on an RTX 4090: LoRA 3083, QLoRA 2413.
constexpr std::string_view kTorchtune = "torchtune, README.md at bd2a0fc";
// Llama 2 7B on an A100: 30.97 tokens a second in bf16, 19.98 with bnb.nf4.
constexpr std::string_view kLitgpt = "litgpt, tutorials/resource-tables.md";

// A tenth of DeepSpeed's default (0.19.8, runtime/zero/config.py: reduce_bucket_size), in elements.
constexpr int64_t kSmallBucket = 50'000'000;

// A change whose words are the same for all models.
struct AdviceRow {
  ChangedPart part;
  CostClass cost_class;
  std::string_view what;
  std::string_view flags;
  std::string_view cost;
  bool (*applies)(const AdviceCase& c);
  void (*apply)(EstimateRequest& request);
  int slower_percent = 0;
  std::string_view source = {};
};

constexpr AdviceRow kAdviceRows[] = {
    {ChangedPart::kOptimizerImpl, CostClass::kFree, "fused optimizer", "--optimizer-impl fused",
     "the same update in one kernel, without temporary lists", CanBeFused,
     [](EstimateRequest& r) { r.settings.optimizer_impl = OptimizerImpl::kFused; }},
    {ChangedPart::kStepInBackward, CostClass::kFree, "the optimizer in backward",
     "--optimizer-in-backward",
     "each gradient goes as soon as it is used; no clipping, no accumulation", CanStepInBackward,
     [](EstimateRequest& r) { r.settings.optimizer_in_backward = true; }, -1, kTorchtune},
    {ChangedPart::kZeroGrad, CostClass::kFree, "gradients dropped before the forward pass",
     "--zero-grad before-forward", "nothing reads the old gradients then",
     [](const AdviceCase& c) {
       const ZeroGrad zero_grad = c.request.settings.loop.zero_grad;
       return IsTraining(c) && zero_grad != ZeroGrad::kBeforeForward &&
              zero_grad != ZeroGrad::kAfterStep;
     },
     [](EstimateRequest& r) { r.settings.loop.zero_grad = ZeroGrad::kBeforeForward; }},
    {ChangedPart::kBuckets, CostClass::kFree, "gradients as parts of their buckets", "--ddp-views",
     "gradient_as_bucket_view=True; gradients cannot be detached",
     [](const AdviceCase& c) {
       return HasReplicas(c) && !c.request.settings.ranks.gradients_as_views;
     },
     [](EstimateRequest& r) { r.settings.ranks.gradients_as_views = true; }},
    {ChangedPart::kBuckets, CostClass::kFree, "outputs that the last stage drops", "--drop-outputs",
     "schedule.step(…, return_outputs=False)",
     [](const AdviceCase& c) {
       const RankSettings& ranks = c.request.settings.ranks;
       return IsTraining(c) && ranks.strategy == Strategy::kPipeline &&
              !ranks.pipeline.drops_outputs;
     },
     [](EstimateRequest& r) { r.settings.ranks.pipeline.drops_outputs = true; }},
    {ChangedPart::kBuckets, CostClass::kFree, "a smaller bucket of gradients",
     "--reduce-bucket 50000000", "reduce_bucket_size; gradients are sent in smaller parts",
     [](const AdviceCase& c) {
       const RankSettings& ranks = c.request.settings.ranks;
       return IsTraining(c) && IsOfDeepSpeed(ranks.strategy) && ranks.reduce_bucket > kSmallBucket;
     },
     [](EstimateRequest& r) { r.settings.ranks.reduce_bucket = kSmallBucket; }},
    {ChangedPart::kRanks, CostClass::kFree, "optimizer state shared among the ranks",
     "--strategy zero-redundancy",
     "ZeroRedundancyOptimizer; as much is sent (Rajbhandari et al. 2020, arXiv:1910.02054)",
     [](const AdviceCase& c) {
       const TrainingSettings& s = c.request.settings;
       const bool has_groups =
           s.param_groups != ParamGroups::kOfLoop && s.param_groups != ParamGroups::kOne;
       return HasReplicas(c) && s.ranks.strategy == Strategy::kDdp && !has_groups;
     },
     [](EstimateRequest& r) { ShareBy(Strategy::kZeroRedundancy, r); }},
    {ChangedPart::kRanks, CostClass::kTime, "the model shared among the ranks", "--strategy fsdp",
     "FSDP2; half as much again is sent (Rajbhandari et al. 2020, arXiv:1910.02054)",
     [](const AdviceCase& c) { return HasReplicas(c) && !c.request.settings.channels_last; },
     [](EstimateRequest& r) { ShareBy(Strategy::kFsdp, r); }},
    {ChangedPart::kRanks, CostClass::kFree, "gradients shared among the ranks, too",
     "--strategy zero2", "\"stage\": 2; with micro-batches each of them is reduced",
     [](const AdviceCase& c) {
       const RankSettings& ranks = c.request.settings.ranks;
       return IsTraining(c) && ranks.strategy == Strategy::kZero1 && ranks.world > 1;
     },
     [](EstimateRequest& r) { ShareBy(Strategy::kZero2, r); }},
    {ChangedPart::kRanks, CostClass::kTime, "parameters shared among the ranks, too",
     "--strategy zero3",
     "\"stage\": 3; half as much again is sent (Rajbhandari et al. 2020, arXiv:1910.02054)",
     [](const AdviceCase& c) {
       const RankSettings& ranks = c.request.settings.ranks;
       return IsTraining(c) &&
              (ranks.strategy == Strategy::kZero1 || ranks.strategy == Strategy::kZero2) &&
              ranks.world > 1 && !ranks.overlap_comm;
     },
     [](EstimateRequest& r) { ShareBy(Strategy::kZero3, r); }},
    {ChangedPart::kOffload, CostClass::kTime, "shards and optimizer on the host", "--fsdp-offload",
     "CPUOffloadPolicy; both pass PCIe in each step, and the host's cores step", CanOffloadShards,
     [](EstimateRequest& r) { r.settings.ranks.fsdp_offload = true; }},
    {ChangedPart::kOffload, CostClass::kTime, "the optimizer on the host", "--zero-offload",
     "\"offload_optimizer\"; gradients and parameters pass PCIe in each step, and the host's cores "
     "step (Ren et al. 2021, arXiv:2101.06840)",
     [](const AdviceCase& c) {
       const RankSettings& ranks = c.request.settings.ranks;
       return IsTraining(c) && IsOfDeepSpeed(ranks.strategy) && !ranks.zero_offload;
     },
     [](EstimateRequest& r) { r.settings.ranks.zero_offload = true; }},
    {ChangedPart::kAttention, CostClass::kFree, "attention in one kernel", "--attention sdpa",
     "the same result; its weights cannot be looked at",
     [](const AdviceCase& c) { return c.request.settings.attention == AttentionUse::kEager; },
     [](EstimateRequest& r) { r.settings.attention = AttentionUse::kSdpa; }},
    {ChangedPart::kInPlace, CostClass::kFree, "activations in place", "--in-place always",
     "the same result; nn.ReLU(inplace=True), out += x",
     [](const AdviceCase& c) { return c.request.settings.in_place == InPlaceUse::kNever; },
     [](EstimateRequest& r) { r.settings.in_place = InPlaceUse::kAlways; }},
    {ChangedPart::kHeldOutputs, CostClass::kFree, "no name for the outputs",
     "without --hold-outputs", "loss(model(x), y), or del out after the loss",
     [](const AdviceCase& c) { return c.request.settings.loop.hold_outputs; },
     [](EstimateRequest& r) { r.settings.loop.hold_outputs = false; }},
    {ChangedPart::kPrefetch, CostClass::kTime, "no batches ahead on the card", "--prefetch 0",
     "the card waits for each batch to be copied",
     [](const AdviceCase& c) { return c.request.settings.loop.prefetch > 0; },
     [](EstimateRequest& r) { r.settings.loop.prefetch = 0; }},
    {ChangedPart::kPredictions, CostClass::kTime, "predictions moved to the host", "--eval-keep 1",
     "eval_accumulation_steps=1; the card waits for each batch to be copied",
     [](const AdviceCase& c) { return IsTraining(c) && c.request.settings.evaluation.keep > 1; },
     [](EstimateRequest& r) { r.settings.evaluation.keep = 1; }},
    {ChangedPart::kOptimizerImpl, CostClass::kTime, "optimizer in a loop",
     "--optimizer-impl for-loop", "the same update, one parameter after the other, which is slower",
     CanLoop, [](EstimateRequest& r) { r.settings.optimizer_impl = OptimizerImpl::kForLoop; }},
    {ChangedPart::kRecomputed, CostClass::kTime, "every second block computed again",
     "--checkpoint every=2", "torch.utils.checkpoint around half the blocks", HasBlocks,
     [](EstimateRequest& r) { r.settings.checkpoint = {"every=2"}; }, 17, kChen},
    {ChangedPart::kRecomputed, CostClass::kTime, "activations computed again", "--checkpoint auto",
     "torch.utils.checkpoint around blocks", HasBlocks,
     [](EstimateRequest& r) { r.settings.checkpoint = {"auto"}; }, 33, kChen},
    {ChangedPart::kAverage, CostClass::kTuning, "no averaged model on the card", "without --ema",
     "keep the average on the CPU, or do without",
     [](const AdviceCase& c) { return IsTraining(c) && c.request.settings.ema; },
     [](EstimateRequest& r) { r.settings.ema = false; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "single precision", "-p fp32",
     "7 digits instead of 15", IsFp64,
     [](EstimateRequest& r) { TakePrecision(r.settings, Precision::kFp32); }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "mixed precision", "-p amp-bf16",
     "products in 16 bits, weights in fp32; little risk",
     [](const AdviceCase& c) { return IsFp32(c) && RunsInBf16(c); },
     [](EstimateRequest& r) { r.settings.precision = Precision::kAmpBf16; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "mixed precision", "-p amp-fp16",
     "products in 16 bits, weights in fp32; scales the loss",
     [](const AdviceCase& c) { return IsTraining(c) && IsFp32(c) && !HasBf16(c); },
     [](EstimateRequest& r) { r.settings.precision = Precision::kAmpFp16; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "mixed precision", "-p amp-fp16",
     "products in 16 bits, weights in fp32; compare some outputs",
     [](const AdviceCase& c) { return !IsTraining(c) && IsFp32(c) && !HasBf16(c); },
     [](EstimateRequest& r) { r.settings.precision = Precision::kAmpFp16; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "mixed precision in fp16", "-p amp-fp16",
     "the card has no bf16: attention there keeps its scores; scales the loss",
     [](const AdviceCase& c) {
       return IsTraining(c) && !HasBf16(c) && c.request.settings.precision == Precision::kAmpBf16;
     },
     [](EstimateRequest& r) { r.settings.precision = Precision::kAmpFp16; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "all in bf16", "-p bf16",
     "weights and moments too; small updates are lost, watch the loss",
     [](const AdviceCase& c) { return IsTraining(c) && IsWide(c) && RunsInBf16(c); },
     [](EstimateRequest& r) { TakePrecision(r.settings, Precision::kBf16); }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "all in bf16", "-p bf16",
     "3 digits; compare some outputs",
     [](const AdviceCase& c) { return !IsTraining(c) && IsWide(c) && RunsInBf16(c); },
     [](EstimateRequest& r) { TakePrecision(r.settings, Precision::kBf16); }},
    // Training in pure fp16 is no advice: gradients underflow and Adam's epsilon is 0 there.
    {ChangedPart::kPrecision, CostClass::kPrecision, "all in fp16", "-p fp16",
     "4 digits, nothing above 65504; compare some outputs",
     [](const AdviceCase& c) { return !IsTraining(c) && IsWide(c) && !HasBf16(c); },
     [](EstimateRequest& r) { TakePrecision(r.settings, Precision::kFp16); }},
    {ChangedPart::kQuantized, CostClass::kPrecision, "frozen weights in 4 bits", "--quantize nf4",
     "bitsandbytes unpacks each layer where it is used",
     [](const AdviceCase& c) { return IsTraining(c) && CanBeQuantized(c); }, Quantize, 28,
     kTorchtune},
    {ChangedPart::kQuantized, CostClass::kPrecision, "weights in 4 bits", "--quantize nf4",
     "bitsandbytes unpacks each layer where it is used; compare some outputs",
     [](const AdviceCase& c) { return !IsTraining(c) && CanBeQuantized(c); }, Quantize, 55,
     kLitgpt},
    {ChangedPart::kTrained, CostClass::kTrainsLess, "adapters alone trained", "--lora 8",
     "low-rank adapters (LoRA, peft) beside frozen layers", CanBeAdapted, Adapt, -15, kTorchtune},
    {ChangedPart::kTrained, CostClass::kTrainsLess, "adapters on weights of 4 bits",
     "--lora 8 --quantize nf4",
     "QLoRA (peft, bitsandbytes): frozen layers are unpacked where they are used",
     [](const AdviceCase& c) { return CanBeAdapted(c) && IsEager(c); },
     [](EstimateRequest& r) {
       Adapt(r);
       Quantize(r);
     },
     9, kTorchtune},
};

}  // namespace

std::vector<Change> ChangesFor(const AdviceCase& c) {
  std::vector<Change> changes;
  for (const AdviceRow& row : kAdviceRows) {
    if (!row.applies(c)) continue;
    changes.push_back({row.part, row.cost_class, std::string(row.what), std::string(row.flags),
                       std::string(row.cost), row.apply, row.slower_percent,
                       std::string(row.source)});
  }
  for (Change& change : ModelChanges(c)) changes.push_back(std::move(change));
  if (IsWholeStep(c.asked.prediction->program)) {  // its code says all else
    std::erase_if(changes,
                  [](const Change& change) { return change.part != ChangedPart::kAllocator; });
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.cost_class < b.cost_class; });
  return changes;
}

std::string FlagsAt(const Change& change, int64_t batch) {
  std::string flags = change.flags;
  const size_t place = flags.find(kBatchMark);
  if (place != std::string::npos) {
    flags.replace(place, kBatchMark.size(), std::to_string(batch));
  }
  return flags;
}

int64_t SampleStateBytes(Optimizer optimizer, const FrameworkProfile& framework) {
  const TensorType sample = {DType::kFloat32, {1024, 1024}};
  int64_t bytes = 0;
  for (const StateTensor& state : FindOptimizerRule(optimizer, {}, framework).states) {
    const TensorType type = StateType(state, sample);
    if (type.dtype != DType::kUndefined) bytes += BytesOf(type);
  }
  return bytes;
}

}  // namespace onnxfit

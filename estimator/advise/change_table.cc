#include <algorithm>

#include "estimator/advise/changes.h"
#include "estimator/base/error.h"
#include "estimator/eager/optimizer_rule.h"

namespace onnxfit {

// The table of changes.  Those whose flags or cost depend on the model are made by functions, in
// model_changes.cc.

namespace {

bool IsTraining(const AdviceCase& c) { return c.is_training(); }
bool IsFp64(const AdviceCase& c) { return c.request.settings.precision == Precision::kFp64; }
bool IsFp32(const AdviceCase& c) { return c.request.settings.precision == Precision::kFp32; }

// Tensor cores take bf16 from compute capability 8.0 on; before, it is emulated.
bool HasBf16(const AdviceCase& c) { return c.target.device.compute_capability >= 80; }

bool IsWide(const AdviceCase& c) {
  const DType type = ParameterType(c.request.settings.precision);
  return type == DType::kFloat32 || type == DType::kFloat64;
}

bool Has(const AdviceCase& c, OptimizerImpl impl) {
  return HasImpl(c.request.settings.optimizer, impl, c.request.settings.framework);
}

bool Runs(const AdviceCase& c, OptimizerImpl impl) {
  const TrainingSettings& s = c.request.settings;
  return ImplOf(s.optimizer, s.optimizer_impl, s.framework) == impl;
}

bool CanBeFused(const AdviceCase& c) {
  return IsTraining(c) && !Runs(c, OptimizerImpl::kFused) && Has(c, OptimizerImpl::kFused);
}

// Only where there is none that is fused: that is as small, and faster.
bool CanLoop(const AdviceCase& c) {
  return IsTraining(c) && Runs(c, OptimizerImpl::kForeach) && !Has(c, OptimizerImpl::kFused) &&
         Has(c, OptimizerImpl::kForLoop);
}

// Whether blocks repeat that a checkpoint can be put around.
bool HasBlocks(const AdviceCase& c) {
  return IsTraining(c) && c.request.settings.checkpoint.empty() &&
         HasRepeatedBlocks(*c.asked.prediction);
}

// A change whose words are the same for all models.
struct AdviceRow {
  ChangedPart part;
  CostClass cost_class;
  std::string_view what;
  std::string_view flags;
  std::string_view cost;
  bool (*applies)(const AdviceCase& c);
  void (*apply)(EstimateRequest& request);
};

constexpr AdviceRow kAdviceRows[] = {
    {ChangedPart::kOptimizerImpl, CostClass::kFree, "fused optimizer", "--optimizer-impl fused",
     "the same update in one kernel, without temporary lists", CanBeFused,
     [](EstimateRequest& r) { r.settings.optimizer_impl = OptimizerImpl::kFused; }},
    {ChangedPart::kZeroGrad, CostClass::kFree, "gradients dropped before the forward pass",
     "--zero-grad before-forward", "nothing reads the old gradients then",
     [](const AdviceCase& c) {
       return IsTraining(c) && c.request.settings.loop.zero_grad != ZeroGrad::kBeforeForward;
     },
     [](EstimateRequest& r) { r.settings.loop.zero_grad = ZeroGrad::kBeforeForward; }},
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
    {ChangedPart::kOptimizerImpl, CostClass::kTime, "optimizer in a loop",
     "--optimizer-impl for-loop", "the same update, one parameter after the other, which is slower",
     CanLoop, [](EstimateRequest& r) { r.settings.optimizer_impl = OptimizerImpl::kForLoop; }},
    {ChangedPart::kRecomputed, CostClass::kTime, "activations computed again", "--checkpoint auto",
     "torch.utils.checkpoint around blocks; a third more compute", HasBlocks,
     [](EstimateRequest& r) { r.settings.checkpoint = {"auto"}; }},
    {ChangedPart::kAverage, CostClass::kTuning, "no averaged model on the card", "without --ema",
     "keep the average on the CPU, or do without",
     [](const AdviceCase& c) { return IsTraining(c) && c.request.settings.ema; },
     [](EstimateRequest& r) { r.settings.ema = false; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "single precision", "-p fp32",
     "7 digits instead of 15", IsFp64,
     [](EstimateRequest& r) { r.settings.precision = Precision::kFp32; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "mixed precision", "-p amp-bf16",
     "products in 16 bits, weights in fp32; little risk",
     [](const AdviceCase& c) { return IsFp32(c) && HasBf16(c); },
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
     [](const AdviceCase& c) { return IsTraining(c) && IsWide(c) && HasBf16(c); },
     [](EstimateRequest& r) { r.settings.precision = Precision::kBf16; }},
    {ChangedPart::kPrecision, CostClass::kPrecision, "all in bf16", "-p bf16",
     "3 digits; compare some outputs",
     [](const AdviceCase& c) { return !IsTraining(c) && IsWide(c) && HasBf16(c); },
     [](EstimateRequest& r) { r.settings.precision = Precision::kBf16; }},
    // Training in pure fp16 is no advice: gradients underflow and Adam's epsilon is 0 there.
    {ChangedPart::kPrecision, CostClass::kPrecision, "all in fp16", "-p fp16",
     "4 digits, nothing above 65504; compare some outputs",
     [](const AdviceCase& c) { return !IsTraining(c) && IsWide(c) && !HasBf16(c); },
     [](EstimateRequest& r) { r.settings.precision = Precision::kFp16; }},
};

}  // namespace

std::vector<Change> ChangesFor(const AdviceCase& c) {
  std::vector<Change> changes = ModelChanges(c);
  for (const AdviceRow& row : kAdviceRows) {
    if (!row.applies(c)) continue;
    changes.push_back({row.part, row.cost_class, std::string(row.what), std::string(row.flags),
                       std::string(row.cost), row.apply});
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

bool HasImpl(Optimizer optimizer, OptimizerImpl impl, const FrameworkProfile& framework) {
  try {
    FindOptimizerRule(optimizer, impl, framework);
    return true;
  } catch (const Error&) {
    return false;
  }
}

OptimizerImpl ImplOf(Optimizer optimizer, std::optional<OptimizerImpl> asked,
                     const FrameworkProfile& framework) {
  if (asked && HasImpl(optimizer, *asked, framework)) return *asked;
  return FindOptimizerRule(optimizer, {}, framework).impl;
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

// What a user asks for, as plain values with the defaults of the command line.
// Every enumeration of it has one table of names, read by the parser and the reports.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/framework.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// amp: torch.autocast over an fp32 model, with GradScaler for fp16.  The others are pure:
// model.to(dtype).
enum class Precision : uint8_t { kFp32, kAmpFp16, kAmpBf16, kBf16, kFp16, kFp64 };

enum class Optimizer : uint8_t {
  kNone,
  kSgd,
  kSgdMomentum,
  kAdam,
  kAdamW,
  kRmsprop,
  kAdagrad,
  kAdafactor,
  kAdafactorTransformers,  // as its Trainer makes it: scale_parameter=False, relative_step=False
  kLion,
  kAdamW8bit,  // from here on bitsandbytes': small parameters in 32 bits
  kPagedAdamW8bit,
  kPagedAdamW32bit,
  kLion8bit,
  kPagedLion8bit,
  kLion32bit,
  kPagedLion32bit,
  kScheduleFreeAdamW,
  kScheduleFreeSgd,
  kNAdam,
  kRAdam,
  kAdamax,
  kAdEMAMix32bit,
  kAdEMAMix8bit,
  kPagedAdEMAMix32bit,
  kPagedAdEMAMix8bit,
  kSgdMomentum8bit,
  kRmsprop32bit,
  kRmsprop8bit,
  kAdagrad8bit,
  kTorchaoAdamW8bit,
  kTorchaoAdamW4bit,
  kTorchaoAdamWFp8,
  kMuon,  // of hidden matrices; AdamW of all others
  kTimmLion,
  kTimmAdopt,
  kTimmLamb,
  kAdadelta,
  kAsgd,
  kProdigy,
  kSparseAdam,  // of sparse gradients alone
  kMuSgd,       // as ultralytics builds it: nesterov, Muon's iteration for matrices and kernels
  kSoap,        // whose bases are updated in every step that is played
  kGaLore,      // the same of its projections; AdamW as galore_torch writes it
};

// How an optimizer of torch.optim runs: over lists of all parameters, one parameter after
// the other, or in kernels that do all at once.
enum class OptimizerImpl : uint8_t { kForeach, kForLoop, kFused };

enum class Mode : uint8_t { kTrain, kEval };

// causal-lm is Hugging Face's: logits shifted by one and taken in fp32.
enum class Loss : uint8_t { kCrossEntropy, kCausalLm, kMse, kNone };

// Whether it is of logits and classes.
constexpr bool IsOfClasses(Loss loss) {
  return loss == Loss::kCrossEntropy || loss == Loss::kCausalLm;
}

// Activations and residual sums: written over their input (nn.ReLU(inplace=True), out += x)
// wherever PyTorch allows it, where the file or a library says so, or never.  Few files say.
enum class InPlaceUse : uint8_t {
  // Always, which is left open: verdicts take kKnown where that is worse; but for activations of
  // models without convolutions (HasConvolution in lost/places.h).
  kAuto,
  kAlways,  // but where the file or a library says that they do not
  kKnown,
  kNever,
};

// Batch norms that were folded into convolutions: put back where the file shows them, the graph
// as it is, or put back behind every convolution that has a bias.
enum class BatchNormUse : uint8_t { kAuto, kKeep, kRestore };

// torch.compile of the model: what Inductor's code likely takes, or the plan of eager, which it
// seldom exceeds.
enum class Compiling : uint8_t {
  kNone,
  kInductor,  // which is left open: verdicts take kAsEager where that is worse
  kAsEager,
};

// When optimizer.zero_grad() runs, and what it does: drops the gradients before the forward
// pass, between it and backward or as soon as the optimizer has stepped, or keeps them as zeros
// (set_to_none=False).
enum class ZeroGrad : uint8_t { kBeforeForward, kBeforeBackward, kKeep, kAfterStep };

// scaled_dot_product_attention by the kernels that PyTorch chooses, or written out in Python
// (transformers' attn_implementation="eager").
enum class AttentionUse : uint8_t { kSdpa, kEager };

// How bitsandbytes keeps the weights of frozen layers: in 4 bits, or in 8 (LLM.int8(), threshold
// 6).
enum class Quantization : uint8_t { kNone, kNf4, kInt8 };

// How ranks share the work: gradients are added up in DistributedDataParallel's buckets;
// zero-redundancy has ZeroRedundancyOptimizer beside it, of which each rank steps a share; zero1 to
// zero3 are DeepSpeed's stages, whose ranks step a part of the parameters, with zero2 keep
// gradients of that part alone, with zero3 parameters, too; with fsdp each has a part of every
// parameter (torch.distributed.fsdp.fully_shard), with fsdp-hybrid of those that few ranks share,
// as other such groups do; in a pipeline each has some of the model's blocks
// (torch.distributed.pipelining).
enum class Strategy : uint8_t {
  kNone,
  kDdp,
  kZeroRedundancy,
  kZero1,
  kZero2,
  kZero3,
  kFsdp,
  kFsdpHybrid,
  kPipeline,
};

// In which order a stage of a pipeline runs its micro-batches: a backward as soon as one can be, or
// all forward passes first.
enum class Schedule : uint8_t { k1F1B, kGPipe };

// Arguments of optimizers that take memory, as bits.
enum OptimizerArg : uint8_t {
  kWeightDecay = 1,
  kNesterov = 2,
  kAmsgrad = 4,
  kUseMuon = 8,  // MuSGD's, which a group of parameters decides: no flag says it
};

// In which groups an optimizer has the parameters, so that weight decay leaves some out: all in
// one; tensors of two dimensions and more apart (nanoGPT); as transformers' Trainer, timm or
// ultralytics have them.  kOfLoop: as the loop's library does, if it does.
enum class ParamGroups : uint8_t {
  kOfLoop,
  kOne,
  kMatrices,
  kTransformers,
  kTimm,
  kUltralytics,
};

// Whose loop trains: the plain one of training/training.h, or that of a library
// (libraries/loops.cc).
enum class LoopLibrary : uint8_t {
  kPlain,
  kAccelerate,
  kTrainer,
  kLightning,
  kTimm,
  kUltralytics,
};

// One spelling of an enumerator, as typed and as printed.
template <typename Enum>
struct Spelling {
  std::string_view name;
  Enum value;
};

inline constexpr Spelling<Precision> kPrecisions[] = {
    {"fp32", Precision::kFp32},        {"amp-fp16", Precision::kAmpFp16},
    {"amp-bf16", Precision::kAmpBf16}, {"bf16", Precision::kBf16},
    {"fp16", Precision::kFp16},        {"fp64", Precision::kFp64},
};

inline constexpr Spelling<Optimizer> kOptimizers[] = {
    {"none", Optimizer::kNone},
    {"sgd", Optimizer::kSgd},
    {"sgdm", Optimizer::kSgdMomentum},
    {"adam", Optimizer::kAdam},
    {"adamw", Optimizer::kAdamW},
    {"rmsprop", Optimizer::kRmsprop},
    {"adagrad", Optimizer::kAdagrad},
    {"adafactor", Optimizer::kAdafactor},
    {"adafactor-transformers", Optimizer::kAdafactorTransformers},
    {"lion", Optimizer::kLion},
    {"adamw-8bit", Optimizer::kAdamW8bit},
    {"paged-adamw-8bit", Optimizer::kPagedAdamW8bit},
    {"paged-adamw-32bit", Optimizer::kPagedAdamW32bit},
    {"lion-8bit", Optimizer::kLion8bit},
    {"paged-lion-8bit", Optimizer::kPagedLion8bit},
    {"lion-32bit", Optimizer::kLion32bit},
    {"paged-lion-32bit", Optimizer::kPagedLion32bit},
    {"schedule-free-adamw", Optimizer::kScheduleFreeAdamW},
    {"schedule-free-sgd", Optimizer::kScheduleFreeSgd},
    {"nadam", Optimizer::kNAdam},
    {"radam", Optimizer::kRAdam},
    {"adamax", Optimizer::kAdamax},
    {"ademamix-32bit", Optimizer::kAdEMAMix32bit},
    {"ademamix-8bit", Optimizer::kAdEMAMix8bit},
    {"paged-ademamix-32bit", Optimizer::kPagedAdEMAMix32bit},
    {"paged-ademamix-8bit", Optimizer::kPagedAdEMAMix8bit},
    {"sgdm-8bit", Optimizer::kSgdMomentum8bit},
    {"rmsprop-32bit", Optimizer::kRmsprop32bit},
    {"rmsprop-8bit", Optimizer::kRmsprop8bit},
    {"adagrad-8bit", Optimizer::kAdagrad8bit},
    {"torchao-adamw-8bit", Optimizer::kTorchaoAdamW8bit},
    {"torchao-adamw-4bit", Optimizer::kTorchaoAdamW4bit},
    {"torchao-adamw-fp8", Optimizer::kTorchaoAdamWFp8},
    {"timm-lion", Optimizer::kTimmLion},
    {"timm-adopt", Optimizer::kTimmAdopt},
    {"timm-lamb", Optimizer::kTimmLamb},
    {"adadelta", Optimizer::kAdadelta},
    {"asgd", Optimizer::kAsgd},
    {"prodigy", Optimizer::kProdigy},
    {"sparse-adam", Optimizer::kSparseAdam},
    {"musgd", Optimizer::kMuSgd},
    {"soap", Optimizer::kSoap},
    {"galore", Optimizer::kGaLore},
    {"muon", Optimizer::kMuon},
};

inline constexpr Spelling<OptimizerImpl> kOptimizerImpls[] = {
    {"foreach", OptimizerImpl::kForeach},
    {"for-loop", OptimizerImpl::kForLoop},
    {"fused", OptimizerImpl::kFused},
};

inline constexpr Spelling<OptimizerArg> kOptimizerArgs[] = {
    {"weight_decay", kWeightDecay}, {"nesterov", kNesterov}, {"amsgrad", kAmsgrad}};

inline constexpr Spelling<ParamGroups> kParamGroups[] = {
    {"auto", ParamGroups::kOfLoop},       {"one", ParamGroups::kOne},
    {"matrices", ParamGroups::kMatrices}, {"transformers", ParamGroups::kTransformers},
    {"timm", ParamGroups::kTimm},         {"ultralytics", ParamGroups::kUltralytics}};

inline constexpr Spelling<Mode> kModes[] = {{"train", Mode::kTrain}, {"eval", Mode::kEval}};

inline constexpr Spelling<Loss> kLosses[] = {
    {"cross-entropy", Loss::kCrossEntropy},
    {"causal-lm", Loss::kCausalLm},
    {"mse", Loss::kMse},
    {"none", Loss::kNone},
};

inline constexpr Spelling<InPlaceUse> kInPlaceUses[] = {{"auto", InPlaceUse::kAuto},
                                                        {"always", InPlaceUse::kAlways},
                                                        {"known", InPlaceUse::kKnown},
                                                        {"never", InPlaceUse::kNever}};

inline constexpr Spelling<Compiling> kCompilings[] = {{"none", Compiling::kNone},
                                                      {"inductor", Compiling::kInductor},
                                                      {"as-eager", Compiling::kAsEager}};

inline constexpr Spelling<BatchNormUse> kBatchNormUses[] = {{"auto", BatchNormUse::kAuto},
                                                            {"keep", BatchNormUse::kKeep},
                                                            {"restore", BatchNormUse::kRestore}};

inline constexpr Spelling<ZeroGrad> kZeroGrads[] = {{"before-forward", ZeroGrad::kBeforeForward},
                                                    {"before-backward", ZeroGrad::kBeforeBackward},
                                                    {"after-step", ZeroGrad::kAfterStep},
                                                    {"keep", ZeroGrad::kKeep}};

inline constexpr Spelling<Quantization> kQuantizations[] = {
    {"none", Quantization::kNone}, {"nf4", Quantization::kNf4}, {"int8", Quantization::kInt8}};

inline constexpr Spelling<AttentionUse> kAttentionUses[] = {{"sdpa", AttentionUse::kSdpa},
                                                            {"eager", AttentionUse::kEager}};

inline constexpr Spelling<Strategy> kStrategies[] = {{"single", Strategy::kNone},
                                                     {"ddp", Strategy::kDdp},
                                                     {"zero-redundancy", Strategy::kZeroRedundancy},
                                                     {"zero1", Strategy::kZero1},
                                                     {"zero2", Strategy::kZero2},
                                                     {"zero3", Strategy::kZero3},
                                                     {"fsdp", Strategy::kFsdp},
                                                     {"fsdp-hybrid", Strategy::kFsdpHybrid},
                                                     {"pipeline", Strategy::kPipeline}};

inline constexpr Spelling<Schedule> kSchedules[] = {{"1f1b", Schedule::k1F1B},
                                                    {"gpipe", Schedule::kGPipe}};

inline constexpr Spelling<LoopLibrary> kLoopLibraries[] = {
    {"plain", LoopLibrary::kPlain},     {"accelerate", LoopLibrary::kAccelerate},
    {"trainer", LoopLibrary::kTrainer}, {"lightning", LoopLibrary::kLightning},
    {"timm", LoopLibrary::kTimm},       {"ultralytics", LoopLibrary::kUltralytics}};

// The name of `value` in its table.  REQUIRES: it has a row.
template <typename Enum>
constexpr std::string_view NameOf(std::span<const Spelling<Enum>> table, Enum value) {
  for (const Spelling<Enum>& row : table) {
    if (row.value == value) return row.name;
  }
  return "?";
}

constexpr std::string_view ToString(Precision v) { return NameOf<Precision>(kPrecisions, v); }
constexpr std::string_view ToString(Optimizer v) { return NameOf<Optimizer>(kOptimizers, v); }
constexpr std::string_view ToString(OptimizerImpl v) {
  return NameOf<OptimizerImpl>(kOptimizerImpls, v);
}
// "weight_decay,nesterov".
inline std::string OptimizerArgsText(uint8_t args) {
  std::string text;
  for (const Spelling<OptimizerArg>& row : kOptimizerArgs) {
    if ((args & row.value) == 0) continue;
    if (!text.empty()) text += ',';
    text += row.name;
  }
  return text;
}
constexpr std::string_view ToString(ParamGroups v) { return NameOf<ParamGroups>(kParamGroups, v); }
constexpr std::string_view ToString(Mode v) { return NameOf<Mode>(kModes, v); }
constexpr std::string_view ToString(Quantization v) {
  return NameOf<Quantization>(kQuantizations, v);
}
constexpr std::string_view ToString(Loss v) { return NameOf<Loss>(kLosses, v); }
constexpr std::string_view ToString(BatchNormUse v) {
  return NameOf<BatchNormUse>(kBatchNormUses, v);
}
constexpr std::string_view ToString(InPlaceUse v) { return NameOf<InPlaceUse>(kInPlaceUses, v); }
constexpr std::string_view ToString(Compiling v) { return NameOf<Compiling>(kCompilings, v); }
constexpr std::string_view ToString(Strategy v) { return NameOf<Strategy>(kStrategies, v); }
constexpr std::string_view ToString(Schedule v) { return NameOf<Schedule>(kSchedules, v); }
constexpr std::string_view ToString(LoopLibrary v) {
  return NameOf<LoopLibrary>(kLoopLibraries, v);
}
constexpr std::string_view ToString(ZeroGrad v) { return NameOf<ZeroGrad>(kZeroGrads, v); }

// What a file may have lost and only its owner knows (--assume).
struct Assumed {
  bool conv_bias = false;         // convolutions under folded batch norms had a bias
  bool in_place_dropout = false;  // nn.Dropout(inplace=True)
  // A head whose weight has the shape of an embedding is that; so it is where nobody says.
  std::optional<bool> tied_head = {};
};

// --dropout GLOB=P: the p of lost dropouts in the modules, or before the nodes, of such names.
struct PlacedDropout {
  std::string glob;
  double p = 0;
  bool operator==(const PlacedDropout&) const = default;
};

// How the training loop is written; training/training.h has it in Python.
struct LoopSettings {
  LoopLibrary library = LoopLibrary::kPlain;
  ZeroGrad zero_grad = ZeroGrad::kBeforeForward;
  bool hold_outputs = false;  // out = model(x); loss = f(out, y), instead of f(model(x), y)
  bool drop_batch = false;    // for x, y in batches of the host: x, y = x.to(device), …
  bool same_batch = false;    // a benchmark: the same x, y in all steps, each a function's
  int64_t prefetch = 0;       // batches on the device beyond the current one
  int64_t accumulate = 1;     // micro-batches of the batch's size for one optimizer step
};

// Low-rank adapters beside layers whose own parameters are frozen, as all others of the model are.
struct LoraSettings {
  int64_t rank = 0;                       // 0: none
  std::vector<std::string> targets = {};  // globs of layers; none: peft's for the type of model
  double dropout = 0;                     // of what the adapters are given
  bool dora = false;                      // weights of their own for magnitudes (use_dora=True)
};

// Linear layers whose gradients GaLore projects to `rank`.
struct GaLoreSettings {
  int64_t rank = 128;                     // transformers' default
  std::vector<std::string> targets = {};  // parts of layers' names, or globs; none: kGaLoreTargets
};

struct QuantizeSettings {
  Quantization kind = Quantization::kNone;
  std::vector<std::string> targets = {};  // globs of layers; none: those that transformers takes
};

// The 16-bit type of autocast, kUndefined without it.
constexpr DType AutocastType(Precision precision) {
  return precision == Precision::kAmpFp16   ? DType::kFloat16
         : precision == Precision::kAmpBf16 ? DType::kBFloat16
                                            : DType::kUndefined;
}

// The type of parameters: fp32 under autocast.
constexpr DType ParameterType(Precision precision) {
  return precision == Precision::kFp64   ? DType::kFloat64
         : precision == Precision::kFp16 ? DType::kFloat16
         : precision == Precision::kBf16 ? DType::kBFloat16
                                         : DType::kFloat32;
}

// The type in which quantized layers compute.
constexpr DType QuantizedComputeType(Precision precision) {
  return precision == Precision::kAmpFp16 || precision == Precision::kFp16 ? DType::kFloat16
                                                                           : DType::kBFloat16;
}

// The type in which convolutions and products run.
constexpr DType ComputeType(Precision precision) {
  const DType lower = AutocastType(precision);
  return lower == DType::kUndefined ? ParameterType(precision) : lower;
}

// The stages of a pipeline: as many as there are ranks.
struct PipelineSettings {
  Schedule schedule = Schedule::k1F1B;
  std::optional<int64_t> stage = {};     // that is estimated, from 0; none: the one that takes most
  std::vector<std::string> begins = {};  // modules with which stages begin; none: blocks, shared
  bool drops_outputs = false;            // schedule.step(…, return_outputs=False)
};

// Ranks that train together, of which the first is estimated: with zero-redundancy another may have
// more.
struct RankSettings {
  Strategy strategy = Strategy::kNone;
  int64_t world = 8;                // ranks
  bool gradients_as_views = false;  // gradient_as_bucket_view
  bool static_graph = false;        // of DistributedDataParallel
  // Gradients of all micro-batches of a step but the last stay with their rank:
  // DistributedDataParallel's no_sync(), FSDP2's set_requires_gradient_sync(False).
  bool no_sync = false;
  int64_t shard_world = 8;  // ranks of fsdp-hybrid that share the model
  // Globs of the modules that fully_shard is put on before the whole model, as for checkpoints;
  // none: the blocks that repeat.
  std::vector<std::string> fsdp_modules = {};
  bool fsdp_keep = false;     // reshard_after_forward=False
  int64_t fsdp_reshard = 0;   // reshard_after_forward=N, of every module; 0 is not told
  bool fsdp_offload = false;  // CPUOffloadPolicy(pin_memory=False)
  // MixedPrecisionPolicy(param_dtype=that of the precision, reduce_dtype=torch.float32) of a model
  // in fp32: shards, reduced gradients, states and buffers stay so.
  bool fsdp_policy = false;
  int64_t reduce_bucket = 500'000'000;  // elements: DeepSpeed's reduce_bucket_size
  bool overlap_comm = false;            // DeepSpeed's: two buckets take turns
  bool zero_offload = false;            // DeepSpeed's: offload_optimizer is on the host
  PipelineSettings pipeline = {};
  int64_t tensor_parallel = 1;  // ranks that share linear layers of blocks
  bool shares_head = false;     // of tensor_parallel: the output embedding, too
  bool shares_tokens = false;   // of tensor_parallel: what is between those layers, by tokens
  // The same of its stage 3: elements that are gathered ahead of their use, and of the largest
  // parameter that stays whole between steps.
  int64_t prefetch_bucket = 50'000'000;
  int64_t persistence_threshold = 100'000;
};

// Whether DeepSpeed's engine trains.
constexpr bool IsOfDeepSpeed(Strategy strategy) {
  return strategy == Strategy::kZero1 || strategy == Strategy::kZero2 ||
         strategy == Strategy::kZero3;
}

// Whether optimizer state is the host's.
constexpr bool StepsOnHost(const RankSettings& ranks) {
  return ranks.fsdp_offload || ranks.zero_offload;
}

constexpr bool IsFullySharded(Strategy strategy) {
  return strategy == Strategy::kFsdp || strategy == Strategy::kFsdpHybrid;
}

// Ranks among which the model, or what of it is shared at all, has its parts.
constexpr int64_t SharingRanks(const RankSettings& ranks) {
  return ranks.strategy == Strategy::kFsdpHybrid ? ranks.shard_world : ranks.world;
}

// Evaluation behind each step of training, with the model in eval mode.
struct EvaluationSettings {
  int64_t batch = 0;  // samples; 0: none
  int64_t keep = 0;   // batches whose predictions lie on the device together
};

// CUBLAS_WORKSPACE_CONFIG.
struct CublasConf {
  std::string text = {};  // ":4096:8"; "" where it is not set
  int64_t bytes = 0;      // of the workspace of each handle; 0 is none
};

// One training (or inference) run to be estimated.
struct TrainingSettings {
  FrameworkProfile framework = DefaultFramework();
  FrameworkChoice framework_choice = {};  // why it is that
  DeviceProfile device = DefaultDevice();
  CublasConf cublas = {};
  Precision precision = Precision::kFp32;
  // Parameters, buffers and values have the types that the file gives them: `precision` names that
  // of most parameters, or the autocast around all of them.  Else the model was cast as a whole,
  // model.to(dtype).
  bool keeps_types = false;
  Optimizer optimizer = Optimizer::kAdamW;
  std::optional<OptimizerImpl> optimizer_impl = {};  // what PyTorch takes when it is not told
  uint8_t optimizer_args = 0;  // OptimizerArg bits: those that are given, and neither 0 nor False
  ParamGroups param_groups = ParamGroups::kOfLoop;
  bool clip_grad = false;              // torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
  bool ema = false;                    // an AveragedModel beside the model, updated after each step
  bool optimizer_in_backward = false;  // each parameter's own, in a hook of its gradient
  Mode mode = Mode::kTrain;
  Loss loss = Loss::kCrossEntropy;
  bool label_smoothing = false;  // of classes
  bool mixup = false;            // timm's Mixup and the loss of its soft targets
  std::string loss_output = {};  // which output the loss takes; "" is the first of floats
  std::string labels = {};       // the input that serves as labels; "" is none: they are apart
  bool channels_last = false;    // kernels and pictures in that memory format
  bool cudnn_benchmark = false;  // torch.backends.cudnn.benchmark
  // What the card has for tensors and cache, within which that tries plans; nullopt: no limit.
  std::optional<int64_t> trial_room_bytes = {};
  InPlaceUse in_place = InPlaceUse::kAuto;
  std::vector<std::string> out_of_place = {};  // globs: calls that never work in place
  BatchNormUse batch_norm = BatchNormUse::kAuto;
  // --dropout: the p of dropouts that the file lost; 0 puts none back, nullopt those that are
  // likely.
  std::optional<double> dropout = {};
  std::vector<PlacedDropout> placed_dropouts = {};  // the last that matches decides
  Assumed assumed = {};
  AttentionUse attention = AttentionUse::kSdpa;
  LoopSettings loop = {};
  std::vector<std::string> freeze = {};  // globs: parameters that need no gradient
  // Globs of modules under torch.utils.checkpoint; "auto": repeated blocks; "every=N": each N-th.
  std::vector<std::string> checkpoint = {};
  bool checkpoint_reentrant = false;  // use_reentrant=True
  Compiling compile = Compiling::kNone;
  bool cuda_graphs = false;  // of what is compiled: torch.compile(mode="reduce-overhead")
  LoraSettings lora = {};
  QuantizeSettings quantize = {};
  GaLoreSettings galore = {};
  RankSettings ranks = {};
  EvaluationSettings evaluation = {};
  bool is_evaluation = false;  // the run of kEval behind a step of training, with its loss
  int steps = 3;               // peaks settle with the third step
};

// -p P: autocast leaves the model's types as they are, another precision casts the model.
inline void TakePrecision(TrainingSettings& settings, Precision precision) {
  settings.precision = precision;
  settings.keeps_types = AutocastType(precision) != DType::kUndefined;
}

constexpr bool TakesLoss(const TrainingSettings& settings) {
  return settings.mode == Mode::kTrain || settings.is_evaluation;
}

// What evaluation runs, behind steps of `settings`.
inline TrainingSettings EvaluationOf(TrainingSettings settings) {
  settings.mode = Mode::kEval;
  settings.is_evaluation = true;
  settings.evaluation.batch = 0;
  settings.checkpoint.clear();
  settings.checkpoint_reentrant = false;
  settings.loop.prefetch = 0;
  settings.loop.accumulate = 1;
  return settings;
}

// What a file leaves open, so that recovery guesses; a flag each says how it is.
enum class Doubt : uint8_t {
  kDropout,    // whether the p of dropouts was above 0 (--dropout)
  kTiedHead,   // whether a head's weight is that of the embedding (--assume tied-head)
  kBatchNorm,  // whether batch norms were folded into convolutions with a bias (--batch-norm)
  kInPlace,    // whether activations and sums write over their input (--in-place)
  kCompiled,   // how much less than eager compiled code takes (--compile)
};

}  // namespace onnxfit

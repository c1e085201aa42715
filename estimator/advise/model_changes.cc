#include <fmt/format.h>

#include <algorithm>

#include "estimator/advise/changes.h"
#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/memory/loop.h"
#include "estimator/optimizers/optimizer_rule.h"

namespace onnxfit {
namespace {

using Changes = std::vector<Change>;

constexpr size_t kShownModules = 3;

// --- The allocator ------------------------------------------------------------------------

// A Jetson has no virtual memory for CUDA (cuMemCreate is not supported on Tegra).
bool CanExpand(const Target& target) { return !target.shares_memory; }

// Tensors alone would fit: it is the pieces between them that do not.
bool IsFragmented(const AdviceCase& c) {
  const int64_t bytes = PeakBlockBytes(c.asked.loop, BytesOf(c.asked.prediction->trace));
  return bytes <= c.target.capacity_bytes();
}

Changes Expandable(const AdviceCase& c) {
  const AllocConf& given = c.request.alloc_conf;
  if (given.conf.expandable_segments || !CanExpand(c.target) || !IsFragmented(c)) return {};
  const std::string text =
      given.text.empty() ? "expandable_segments:True" : given.text + ",expandable_segments:True";
  return {{ChangedPart::kAllocator, CostClass::kFree, "segments that grow", "--alloc-conf " + text,
           "PYTORCH_ALLOC_CONF, before the start; not on Windows", [text](EstimateRequest& r) {
             r.alloc_conf.text = text;
             r.alloc_conf.conf.expandable_segments = true;
           }}};
}

// --- The optimizer ------------------------------------------------------------------------

// Which optimizers' place it takes.
enum class Instead : uint8_t { kOfAll, kOfAdam, kOfLion };

struct SmallOptimizer {
  Optimizer optimizer;
  std::string_view cost;
  CostClass cost_class = CostClass::kTuning;
  Instead instead = Instead::kOfAll;
  int slower_percent = 0;
  std::string_view source = {};
};

// "Optimization flags" has 7301 tokens a second, and with 8-bit AdamW 6960.
constexpr std::string_view kTorchtuneReadme = "torchtune, README.md at bd2a0fc";
// "paged optimizers provide the same training speed as regular optimizers" where the card is full
// at times (65 billion parameters on 48 GB).
constexpr std::string_view kDettmers = "Dettmers et al. 2023, arXiv:2305.14314, section 4";

// From the one that changes least to the one that changes most.
constexpr SmallOptimizer kSmallOptimizers[] = {
    {Optimizer::kPagedAdamW32bit, "moments in managed memory (bitsandbytes)", CostClass::kTime,
     Instead::kOfAdam, 0, kDettmers},
    {Optimizer::kPagedLion32bit, "moments in managed memory (bitsandbytes)", CostClass::kTime,
     Instead::kOfLion, 0, kDettmers},
    {Optimizer::kAdamW8bit, "moments in 8 bits (bitsandbytes); watch the loss", CostClass::kTuning,
     Instead::kOfAll, 5, kTorchtuneReadme},
    {Optimizer::kPagedAdamW8bit,
     "moments in 8 bits in managed memory (bitsandbytes); watch the loss", CostClass::kTuning,
     Instead::kOfAll, 5, kTorchtuneReadme},
    {Optimizer::kLion8bit, "moments in 8 bits (bitsandbytes); watch the loss", CostClass::kTuning,
     Instead::kOfLion},
    {Optimizer::kAdafactor, "second moments by rows and columns; another learning rate"},
    {Optimizer::kSgdMomentum, "another learning rate; often worse for transformers"},
    {Optimizer::kSgd, "another learning rate and more steps; worse for transformers"},
};

bool IsAdam(Optimizer optimizer) {
  return optimizer == Optimizer::kAdam || optimizer == Optimizer::kAdamW;
}

bool IsLion(Optimizer optimizer) {
  return optimizer == Optimizer::kLion || optimizer == Optimizer::kLion32bit;
}

bool IsAdam8bit(Optimizer optimizer) {
  return optimizer == Optimizer::kAdamW8bit || optimizer == Optimizer::kPagedAdamW8bit;
}

bool TakesPlaceOf(Optimizer optimizer, const SmallOptimizer& row) {
  if (row.instead == Instead::kOfAll) return !IsLion(optimizer) || !IsAdam8bit(row.optimizer);
  return row.instead == Instead::kOfAdam ? IsAdam(optimizer) : IsLion(optimizer);
}

// The implementation that was asked for stays where the other optimizer has it.
std::optional<OptimizerImpl> ImplFor(Optimizer optimizer, const TrainingSettings& settings) {
  if (!settings.optimizer_impl) return std::nullopt;
  if (HasImpl(optimizer, *settings.optimizer_impl, settings.framework))
    return settings.optimizer_impl;
  return FindOptimizerRule(optimizer, {}, settings.framework).impl;
}

// PCI-SIG: 16 lanes of PCIe 4.0 have 31.5 GB/s each way.
constexpr double kPcieBytesPerSecond = 31.5e9;

// What a step brings in and out where the card has no room: all moments, in 32 bits; 0 where they
// are few.
int64_t PagedBytes(const SmallOptimizer& row, const AdviceCase& c) {
  const TrainingSettings& settings = c.request.settings;
  if (row.cost_class != CostClass::kTime || !settings.freeze.empty() || settings.lora.rank > 0)
    return 0;
  const int64_t moments = row.instead == Instead::kOfAdam ? 2 : 1;
  const int64_t bytes = 4 * moments * c.asked.prediction->roles().ParameterCount();
  const Strategy strategy = settings.ranks.strategy;
  const bool is_whole = strategy == Strategy::kNone || strategy == Strategy::kDdp;
  return is_whole ? bytes : bytes / SharingRanks(settings.ranks);
}

// That much is moved in every step, which no paper's figure is of.
bool IsMovedEachStep(const SmallOptimizer& row, const AdviceCase& c) {
  return PagedBytes(row, c) > c.target.total_bytes / 4;
}

std::string PagingText(const SmallOptimizer& row, const AdviceCase& c) {
  const int64_t bytes = PagedBytes(row, c);
  if (bytes == 0) return "";
  const double milliseconds = 1000 * static_cast<double>(bytes) / kPcieBytesPerSecond;
  return fmt::format(
      "; {} that a full card moves each way in {:.0f} ms a step (31.5 GB/s, PCIe 4.0 x16)",
      FormatBytes(bytes), milliseconds);
}

Changes SmallerStates(const AdviceCase& c) {
  const TrainingSettings& settings = c.request.settings;
  if (!c.is_training() || settings.optimizer == Optimizer::kNone) return {};
  Changes changes;
  for (const SmallOptimizer& row : kSmallOptimizers) {
    if (!TakesPlaceOf(settings.optimizer, row)) continue;
    if (SampleStateBytes(row.optimizer, settings.framework) >=
        SampleStateBytes(settings.optimizer, settings.framework)) {
      continue;
    }
    const std::optional<OptimizerImpl> impl = ImplFor(row.optimizer, settings);
    std::string flags = fmt::format("-o {}", ToString(row.optimizer));
    if (impl != settings.optimizer_impl) {
      flags += fmt::format(" --optimizer-impl {}", ToString(*impl));
    }
    const uint8_t args = ArgsTaken(row.optimizer, settings.optimizer_args);
    if (args != settings.optimizer_args) {
      flags += fmt::format(" --optimizer-args {}", args == 0 ? "none" : OptimizerArgsText(args));
    }
    const bool is_moved = IsMovedEachStep(row, c);
    const CostClass cost_class = is_moved ? CostClass::kTuning : row.cost_class;
    changes.push_back({ChangedPart::kOptimizer, cost_class, "an optimizer with less state", flags,
                       std::string(row.cost) + PagingText(row, c),
                       [o = row.optimizer, impl, args](EstimateRequest& r) {
                         r.settings.optimizer = o;
                         r.settings.optimizer_impl = impl;
                         r.settings.optimizer_args = args;
                       },
                       row.slower_percent, std::string(row.source), is_moved});
  }
  return changes;
}

// --- What is trained ----------------------------------------------------------------------

Changes Frozen(const AdviceCase& c) {
  const TrainingSettings& settings = c.request.settings;
  if (!c.is_training() || !settings.freeze.empty() || settings.lora.rank > 0) return {};
  const Roles& roles = c.asked.prediction->roles();
  std::vector<NamedCount> parameters;
  for (const ModuleTensor& p : roles.parameters) {
    parameters.push_back({p.name, Numel(p.type.dims)});
  }
  const auto found = GlobsBeforeLast(parameters);
  if (!found) return {};
  const double share =
      100.0 * static_cast<double>(found->learning) / static_cast<double>(roles.ParameterCount());
  std::string flags;
  for (const std::string& glob : found->globs) {
    flags += fmt::format("{}--freeze '{}'", flags.empty() ? "" : " ", glob);
  }
  return {{ChangedPart::kTrained, CostClass::kTrainsLess,
           fmt::format("all but {} frozen", KeptText(*found)), flags,
           fmt::format("{:.1f}% of the parameters are trained", share),
           [globs = found->globs](EstimateRequest& r) { r.settings.freeze = globs; }}};
}

// --- Sizes --------------------------------------------------------------------------------

Changes HalfDimensions(const AdviceCase& c) {
  Changes changes;
  for (const auto& [name, size] : c.request.binding.dims) {
    const int64_t half = size / 2;
    if (half == 0) continue;
    changes.push_back({ChangedPart::kSize, CostClass::kTrainsLess, "half of " + name,
                       fmt::format("--dim {}={}", name, half),
                       fmt::format("{} of {} a sample", half, size),
                       [name = name, half](EstimateRequest& r) { r.binding.dims[name] = half; }});
  }
  return changes;
}

Change SmallerImage(const std::string& input, const Dims& dims, int64_t quarters) {
  Dims smaller = dims;
  for (const size_t axis : {size_t{2}, size_t{3}}) smaller[axis] = dims[axis] * quarters / 4;
  return {
      ChangedPart::kSize,
      CostClass::kTrainsLess,
      "smaller images",
      fmt::format("--shape {}={}x{}x{}x{}", input, kBatchMark, smaller[1], smaller[2], smaller[3]),
      fmt::format("{} x {} instead of {} x {}", smaller[2], smaller[3], dims[2], dims[3]),
      [input, smaller, batch = dims[0]](EstimateRequest& r) {
        Dims own = smaller;
        own[0] = r.binding.batch.value_or(batch);
        r.binding.inputs[input] = own;
      }};
}

// N x C x H x W of floats, large enough to be an image.
bool IsImage(const TensorType& type) {
  constexpr int64_t kSmallestSide = 16;
  return IsFloat(type.dtype) && type.dims.size() == 4 && type.dims[2] >= kSmallestSide &&
         type.dims[3] >= kSmallestSide;
}

Changes SmallerImages(const AdviceCase& c) {
  Changes changes;
  const Prediction& p = *c.asked.prediction;
  for (const ValueId id : p.graph().inputs) {
    const TensorType& type = p.shapes().types[Index(id)].tensor;
    if (!IsImage(type) || type.dims[0] != c.batch()) continue;
    const std::string name(p.graph().values[Index(id)].name);
    changes.push_back(SmallerImage(name, type.dims, 3));
    changes.push_back(SmallerImage(name, type.dims, 2));
  }
  return changes;
}

constexpr Changes (*kMakers[])(const AdviceCase& c) = {Expandable, SmallerStates, Frozen,
                                                       HalfDimensions, SmallerImages};

bool HasBatchNorm(const AdviceCase& c) {
  const std::vector<AtenCall>& calls = c.asked.prediction->program.calls;
  return std::any_of(calls.begin(), calls.end(), [](const AtenCall& call) {
    return call.op.find("batch_norm") != std::string_view::npos;
  });
}

}  // namespace

std::string KeptText(const FrozenGlobs& found) {
  const size_t shown = std::min(kShownModules, found.kept.size());
  const auto last = found.kept.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = fmt::format("{}", fmt::join(found.kept.begin(), last, ", "));
  if (shown < found.kept.size())
    return text + fmt::format(" and {} more", found.kept.size() - shown);
  const size_t comma = text.rfind(", ");
  return comma == std::string::npos ? text : text.replace(comma, 2, " and ");
}

std::vector<Change> ModelChanges(const AdviceCase& c) {
  Changes changes;
  for (const auto maker : kMakers) {
    for (Change& change : maker(c)) changes.push_back(std::move(change));
  }
  return changes;
}

Change SmallerBatch(const AdviceCase& c, int64_t micro_batch, int64_t most) {
  if (!c.is_training()) {
    return {ChangedPart::kBatch,
            CostClass::kTime,
            "smaller batches",
            fmt::format("-b {}", micro_batch),
            fmt::format("{} calls instead of one", c.batch() / micro_batch),
            [&file = c.study.file(), from = c.batch(), micro_batch](EstimateRequest& r) {
              SetBatch(file, from, micro_batch, r);
            }};
  }
  const int64_t count = c.request.settings.loop.accumulate * (c.batch() / micro_batch);
  std::string cost = "the same samples a step, in smaller passes";
  if (HasBatchNorm(c)) cost += fmt::format("; batch norms see {} of them", micro_batch);
  return {ChangedPart::kBatch,
          CostClass::kTime,
          "gradient accumulation",
          fmt::format("-b {} --accumulate {}", micro_batch, count),
          cost,
          [&file = c.study.file(), from = c.batch(), micro_batch,
           played = std::min(count, most)](EstimateRequest& r) {
            SetBatch(file, from, micro_batch, r);
            r.settings.loop.accumulate = played;
          }};
}

}  // namespace onnxfit

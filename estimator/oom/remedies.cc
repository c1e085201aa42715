#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "estimator/base/bytes.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"
#include "estimator/oom/programs.h"
#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

constexpr std::string_view kHelpNames[] = {"yes", "maybe", "no"};

struct Answer {
  Help help;
  std::string why;
};

std::string Text(const std::optional<Amount>& amount) {
  return amount ? ToString(*amount) : "an unknown size";
}

// For sure, whatever rounds to these numbers.
bool SurelyMore(const Amount& a, const Amount& b) { return a.bytes - b.bytes > a.error + b.error; }

// --- What each remedy does ----------------------------------------------------------------

Answer BatchOfAbsurdSize(const RemedyCase& c) {
  if (!c.facts.total) return {Help::kNo, "no card has that much: look at the shape"};
  const auto times = static_cast<int64_t>(c.facts.tried->bytes / c.facts.total->bytes) + 1;
  return {Help::kMaybe, fmt::format("only if this tensor grows with it: the batch would have to be "
                                    "{} times smaller for it alone",
                                    times)};
}

Answer BatchOnFullCard(const RemedyCase& c) {
  const auto lack = c.facts.Short();
  if (!lack) return {Help::kYes, "activations and what was asked for shrink with it"};
  return {Help::kYes, fmt::format("{} are missing here; activations shrink with it, parameters, "
                                  "gradients and optimizer state do not",
                                  Text(lack))};
}

// Whether loading data may be what took it.
bool MayBeLoading(const RemedyCase& c) {
  return c.IsOfHost() && !c.facts.tried && c.MayBePyTorch();
}

std::optional<Answer> SmallerBatch(const RemedyCase& c) {
  if (c.Serves() || c.Is("triton")) return std::nullopt;
  const bool has_families = c.message.format->pattern == nullptr && c.family() != OomFamily::kCuda;
  if (!has_families && c.HasOwn()) return std::nullopt;  // its own is told
  if (c.IsOfHost() && !c.MayBePyTorch()) return std::nullopt;
  if (MayBeLoading(c)) return std::nullopt;  // the loader's is told
  if (c.IsOfHost()) return Answer{Help::kMaybe, "only if what was asked for grows with it"};
  if (c.Is(OomVerdict::kImpossible)) return BatchOfAbsurdSize(c);
  if (c.Is(OomVerdict::kCapacity) || c.Is(OomVerdict::kSpilled)) return BatchOnFullCard(c);
  if (c.Is(OomVerdict::kFragmented)) {
    return Answer{Help::kMaybe, "it asks for less, but the holes between its tensors stay"};
  }
  if (c.Is(OomVerdict::kOtherProcess)) {
    return Answer{Help::kMaybe, fmt::format("others keep their {} whatever this process does",
                                            Text(c.facts.others))};
  }
  return Answer{Help::kMaybe, "if it is this process that fills the card"};
}

Answer AgainstPieces(const RemedyCase& c) {
  const std::string_view option = OptionOf(c.message);
  const std::string cached = Text(c.facts.cached);
  if (option.empty()) {
    return {Help::kMaybe, fmt::format("it is for this: {} are cached in pieces; but this version "
                                      "does not have it, PyTorch 2.1 does",
                                      cached)};
  }
  const bool splits = option.starts_with("max_split");
  return {splits ? Help::kMaybe : Help::kYes,
          splits ? fmt::format("{} are cached in pieces; this version has only {}, PyTorch 2.1 "
                               "segments that grow",
                               cached, option)
                 : fmt::format("{} are cached in pieces; with segments that grow they serve {}; "
                               "not on Windows nor on a Jetson",
                               cached, Text(c.facts.tried))};
}

std::optional<Answer> Expandable(const RemedyCase& c) {
  if (!c.IsPyTorch() || c.Is(OomVerdict::kUnknown) || !c.facts.cached || !c.facts.tried) {
    return std::nullopt;
  }
  const std::string cached = Text(c.facts.cached);
  if (c.Is(OomVerdict::kFragmented)) return AgainstPieces(c);
  const auto room = c.facts.Room();
  const Amount most = room ? *room + *c.facts.cached : *c.facts.cached;
  if (SurelyMore(*c.facts.tried, most)) {
    return Answer{Help::kNo, fmt::format("it makes use of the cache, which is only {}{}", cached,
                                         room ? fmt::format(", and {} is free", Text(room)) : "")};
  }
  if (c.Is(OomVerdict::kContradictory)) {
    return Answer{Help::kMaybe, fmt::format("if {} really are cached: {} would fit into them",
                                            cached, Text(c.facts.tried))};
  }
  if (c.facts.cached->bytes >= c.facts.tried->bytes) {
    return Answer{Help::kMaybe, fmt::format("{} are cached in pieces; with segments that grow they "
                                            "serve {}, and the card is nearly full even so",
                                            cached, Text(c.facts.tried))};
  }
  return Answer{Help::kMaybe, fmt::format("with the {} that are cached {} would only just fit",
                                          cached, Text(c.facts.tried))};
}

std::optional<Answer> EmptyCache(const RemedyCase& c) {
  if (c.IsOfHost() && !c.MayBePyTorch()) return std::nullopt;
  if (c.IsOfHost()) {
    return Answer{Help::kNo, "it is about the card's memory, and the machine's RAM is full"};
  }
  if (c.family() == OomFamily::kTorchAsync) {
    return Answer{Help::kNo, "CUDA's allocator gives back what is free before it fails"};
  }
  if (!c.IsPyTorch()) return std::nullopt;
  return Answer{Help::kNo,
                "PyTorch gave back all that is free as a whole before it failed; calling it makes "
                "no more memory for PyTorch"};
}

std::optional<Answer> StopOthers(const RemedyCase& c) {
  if (c.Is(OomVerdict::kOtherProcess)) {
    std::string pids = c.message.others.empty() ? "" : "; processes";
    for (const OtherProcess& other : c.message.others) pids += fmt::format(" {}", other.pid);
    return Answer{Help::kYes, fmt::format("they hold {}; {} were asked for{}", Text(c.facts.others),
                                          Text(c.facts.tried), pids)};
  }
  const auto lack = c.facts.Short();
  if (c.IsOwnRam() || c.Is("triton") || c.Is("nvenc")) return std::nullopt;
  if (c.IsOfHost()) {
    return Answer{Help::kMaybe, "other programs of this machine or job take of the same RAM"};
  }
  if (c.Is("cuda")) {
    return Answer{Help::kMaybe, "where this is the first call of CUDA, others hold the card"};
  }
  if (c.Is(OomVerdict::kContradictory) || c.Is(OomVerdict::kUnknown)) {
    return Answer{Help::kMaybe, "if there are any"};
  }
  if (c.Serves()) return Answer{Help::kMaybe, "if there are any: a server that ended may be left"};
  if (c.family() == OomFamily::kCard && !c.facts.limited) {
    return Answer{Help::kMaybe, "if there are any: all of them share the card"};
  }
  if (!c.facts.others || !lack) return std::nullopt;
  const bool alone = c.facts.context || c.family() == OomFamily::kMps;
  const std::string held = fmt::format(
      "others{} hold {}", alone ? "" : " and this process' context", Text(c.facts.others));
  if (SurelyMore(*lack, *c.facts.others)) {
    return Answer{Help::kNo, fmt::format("{}, {} are missing", held, Text(lack))};
  }
  return Answer{Help::kMaybe, fmt::format("{}, {} are missing", held, Text(lack))};
}

bool IsFull(const RemedyCase& c) {
  return c.Is(OomVerdict::kCapacity) || c.Is(OomVerdict::kSpilled) || c.Is(OomVerdict::kFragmented);
}

bool Trains(const RemedyCase& c) {
  if (c.Serves()) return false;
  return c.IsPyTorch() || c.family() == OomFamily::kTorchAsync || c.family() == OomFamily::kMps ||
         c.family() == OomFamily::kTensorFlow || c.family() == OomFamily::kXla;
}

std::optional<Answer> Checkpointing(const RemedyCase& c) {
  if (!Trains(c) || !IsFull(c)) return std::nullopt;
  return Answer{Help::kMaybe,
                "in training: activations are computed twice instead of kept, for about a third "
                "more time; files called checkpoints free nothing"};
}

std::optional<Answer> MixedPrecision(const RemedyCase& c) {
  const bool is_torch = c.family() != OomFamily::kTensorFlow && c.family() != OomFamily::kXla;
  if (!Trains(c) || !IsFull(c) || !is_torch) return std::nullopt;
  return Answer{Help::kMaybe,
                "it halves activations of products and convolutions; parameters, gradients and "
                "optimizer state stay fp32, with copies in 16 bits beside them"};
}

std::optional<Answer> SmallerOptimizer(const RemedyCase& c) {
  if (!Trains(c) || !IsFull(c)) return std::nullopt;
  return Answer{Help::kMaybe,
                "in training: Adam keeps 8 bytes a parameter from its first step on, SGD none, "
                "an 8-bit Adam 2"};
}

std::optional<Answer> CardWithMore(const RemedyCase& c) {
  const auto lack = c.facts.Short();
  if (c.facts.limited || c.IsOfHost()) return std::nullopt;
  if (c.Is(OomVerdict::kImpossible)) {
    return Answer{
        c.facts.total ? Help::kMaybe : Help::kNo,
        fmt::format("it would need more than {} for this tensor alone", Text(c.facts.tried))};
  }
  if (!c.Is(OomVerdict::kCapacity)) return std::nullopt;
  if (c.family() == OomFamily::kVllm && !lack) {
    return Answer{Help::kYes, "what it has more is the KV cache's"};
  }
  if (c.HasLayers()) return Answer{Help::kYes, "more layers and a longer context fit"};
  if (!lack) return std::nullopt;
  return Answer{Help::kYes, fmt::format("with {} more it gets past this point, if nothing later "
                                        "needs more",
                                        Text(lack))};
}

std::optional<Answer> HigherLimit(const RemedyCase& c) {
  const bool is_of_another = c.family() == OomFamily::kCard || c.family() == OomFamily::kRam;
  if (!c.facts.limited || is_of_another || c.message.format->pattern != nullptr) {
    return std::nullopt;
  }
  if (c.family() == OomFamily::kTensorFlow) {
    return Answer{Help::kMaybe, fmt::format("TensorFlow may use {}, which is nearly all of the "
                                            "card unless you set it",
                                            Text(c.facts.allowed))};
  }
  return Answer{
      Help::kYes,
      fmt::format("{} is allowed and in the way{}", Text(c.facts.allowed),
                  c.facts.free ? fmt::format(": {} of the card is free", Text(c.facts.free)) : "")};
}

std::optional<Answer> NoSpill(const RemedyCase& c) {
  if (!c.Is(OomVerdict::kSpilled)) return std::nullopt;
  return Answer{Help::kNo,
                "the driver's setting \"CUDA - Sysmem Fallback Policy\" makes it fail sooner, "
                "instead of run slowly"};
}

std::optional<Answer> Growth(const RemedyCase& c) {
  const bool calls = c.family() == OomFamily::kCuda && c.message.app == "TensorFlow";
  if (c.family() != OomFamily::kTensorFlow && !calls) return std::nullopt;
  const OomRank rank = c.message.format->rank;
  if (calls || rank == OomRank::kDisguise || rank == OomRank::kWarning) {
    return Answer{Help::kMaybe,
                  "tf.config.experimental.set_memory_growth(gpu, True): cuDNN, cuBLAS and a second "
                  "process then find memory that TensorFlow has not taken"};
  }
  return Answer{Help::kNo,
                "allow_growth changes when TensorFlow takes memory, not how much it needs; it "
                "helps other programs on the card"};
}

std::optional<Answer> Watermark(const RemedyCase& c) {
  if (c.family() != OomFamily::kMps) return std::nullopt;
  return Answer{Help::kMaybe,
                "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit; macOS then swaps, and may "
                "stop everything"};
}

std::optional<Answer> Arena(const RemedyCase& c) {
  if (c.family() != OomFamily::kOnnxRuntime) return std::nullopt;
  return Answer{Help::kMaybe,
                "arena_extend_strategy=kSameAsRequested: the arena else grows by powers of two"};
}

std::optional<Answer> Preallocation(const RemedyCase& c) {
  const bool is_tpu = c.message.format->name.starts_with("xla-tpu");
  const bool calls = c.family() == OomFamily::kCuda && c.message.app == "JAX/XLA";
  if (calls || c.Is("xla-dnn")) {
    return Answer{Help::kYes,
                  "XLA_PYTHON_CLIENT_PREALLOCATE=false, or a lower XLA_PYTHON_CLIENT_MEM_FRACTION: "
                  "JAX takes 75 % of the card by default, and libraries need some beside"};
  }
  if (c.family() != OomFamily::kXla || is_tpu) return std::nullopt;
  return Answer{Help::kMaybe,
                "XLA_PYTHON_CLIENT_MEM_FRACTION=.95: JAX takes 75 % of the card by default"};
}

std::optional<Answer> Floats(const RemedyCase& c) {
  if (c.family() != OomFamily::kTheano) return std::nullopt;
  return Answer{Help::kMaybe, "floatX=float32 halves all that was float64"};
}

std::optional<Answer> NoDesktop(const RemedyCase& c) {
  if (c.family() != OomFamily::kJetson) return std::nullopt;
  return Answer{Help::kYes,
                "memory is shared with the CPU: the system and a desktop take about 1 GiB of it; "
                "swap does not hold a card's memory, and a restart puts pieces together"};
}

std::optional<Answer> OnCpu(const RemedyCase& c) {
  if (c.family() != OomFamily::kCuda || c.message.format->rank != OomRank::kDisguise) {
    return std::nullopt;
  }
  return Answer{Help::kMaybe,
                "the same error comes from an index out of range: run once on the CPU, or with "
                "CUDA_LAUNCH_BLOCKING=1, before you save memory"};
}

// --- The machine's RAM -----------------------------------------------------------------------

// torch/utils/data/dataloader.py: prefetch_factor is 2 where there are workers.
std::optional<Answer> FewerWorkers(const RemedyCase& c) {
  if (!MayBeLoading(c)) return std::nullopt;
  return Answer{c.message.format->rank == OomRank::kSign ? Help::kYes : Help::kMaybe,
                "each is a process of its own, with its own copies and with 2 batches waiting "
                "(prefetch_factor); 0 loads in the training process"};
}

std::optional<Answer> SmallerLoaderBatch(const RemedyCase& c) {
  if (!MayBeLoading(c)) return std::nullopt;
  return Answer{
      Help::kMaybe,
      "num_workers x prefetch_factor batches wait in RAM; what they take on the card does "
      "not matter here"};
}

std::optional<Answer> NoPinning(const RemedyCase& c) {
  if (!MayBeLoading(c) || c.Is("dataloader-shm")) return std::nullopt;
  return Answer{Help::kMaybe,
                "pinned batches are copies beside the loader's, which cannot be swapped out"};
}

std::optional<Answer> MoreSharedMemory(const RemedyCase& c) {
  if (!c.Is("dataloader-shm")) return std::nullopt;
  return Answer{Help::kYes,
                "docker run --shm-size=8g, or --ipc=host; in Kubernetes an emptyDir of "
                "medium Memory at /dev/shm"};
}

std::optional<Answer> LoadInParts(const RemedyCase& c) {
  if (!c.IsOfHost() || c.Is("dataloader-shm") || !c.MayBePyTorch()) return std::nullopt;
  return Answer{Help::kMaybe,
                "np.memmap and an IterableDataset hold no whole data set; torch.load "
                "with mmap=True no second copy of the weights"};
}

std::optional<Answer> MoreRam(const RemedyCase& c) {
  if (!c.IsOfHost() || c.Is("dataloader-shm") || c.HasOwn()) return std::nullopt;
  return Answer{c.Is(OomVerdict::kCapacity) ? Help::kYes : Help::kMaybe,
                "slurm: --mem; docker: --memory; Kubernetes: resources.limits.memory; Colab: a "
                "runtime with more RAM"};
}

// --- Servers ---------------------------------------------------------------------------------

std::optional<Answer> Utilization(const RemedyCase& c) {
  if (c.family() != OomFamily::kVllm) return std::nullopt;
  if (c.Is("vllm-start") && c.facts.free && c.facts.total) {
    const double share = std::floor(c.facts.free->bytes / c.facts.total->bytes * 100) / 100;
    return Answer{Help::kMaybe,
                  fmt::format("at most {:.2f} of the card is free here: a lower "
                              "--gpu-memory-utilization starts, if the model fits into it",
                              std::min(share, 1.0))};
  }
  return Answer{Help::kMaybe,
                "a higher --gpu-memory-utilization (0.9 unless told), where others "
                "leave that much of the card: all that is more is the KV cache's"};
}

std::optional<Answer> ShorterModelLength(const RemedyCase& c) {
  if (c.family() != OomFamily::kVllm || c.Is("vllm-start")) return std::nullopt;
  if (c.message.length) {
    return Answer{Help::kYes, fmt::format("{} tokens would fit", *c.message.length)};
  }
  return Answer{c.Is("vllm-request") ? Help::kYes : Help::kMaybe,
                "the KV cache of a sequence, and what is set aside at the start, shrink with it"};
}

std::optional<Answer> SmallerWeights(const RemedyCase& c) {
  if (!c.HasLayers()) return std::nullopt;
  return Answer{Help::kMaybe, c.family() == OomFamily::kVllm
                                  ? "a quantized model, or --tensor-parallel-size over more cards, "
                                    "leaves more of each to the KV cache"
                                  : "of a model in a smaller quantization more layers fit"};
}

std::optional<Answer> SmallerKvCache(const RemedyCase& c) {
  if (!c.HasLayers() || c.Is("vllm-start")) return std::nullopt;
  return Answer{Help::kMaybe, c.family() == OomFamily::kVllm
                                  ? "--kv-cache-dtype fp8 halves it; --enforce-eager leaves it the "
                                    "memory of CUDA's graphs"
                                  : "-ctk q8_0 -ctv q8_0, with -fa, halve it"};
}

std::optional<Answer> FewerLayers(const RemedyCase& c) {
  if (c.family() != OomFamily::kLlamaCpp) return std::nullopt;
  return Answer{Help::kYes, "the others are computed by the CPU, from RAM"};
}

std::optional<Answer> ShorterContext(const RemedyCase& c) {
  if (c.family() != OomFamily::kLlamaCpp || c.Is("llamacpp-load")) return std::nullopt;
  return Answer{c.Is("llamacpp-kv") ? Help::kYes : Help::kMaybe,
                "the KV cache grows with it; -ub 256 halves the buffer of computing"};
}

// --- Memory that is shared, or was given back --------------------------------------------------

// docs.kernel.org, amdgpu's module parameters; ttm's limit is half of the RAM.
std::optional<Answer> MoreOfRam(const RemedyCase& c) {
  if (!c.facts.shares_ram) return std::nullopt;
  return Answer{Help::kYes,
                fmt::format("the GPU is given {} of it: the BIOS's UMA frame buffer, or on Linux "
                            "ttm.pages_limit (half of the RAM unless told), say how much",
                            Text(c.facts.total))};
}

std::optional<Answer> SmallerSleeper(const RemedyCase& c) {
  const auto& process = c.message.Size(OomField::kProcess);
  if (!process || !c.facts.allocated ||
      c.facts.allocated->bytes <= static_cast<double>(process->bytes)) {
    return std::nullopt;
  }
  return Answer{Help::kYes,
                fmt::format("where an engine sleeps beside training (vLLM's sleep mode): a lower "
                            "gpu_memory_utilization, or its deepest level; {} were free",
                            Text(c.facts.free))};
}

struct RemedyRow {
  std::string_view what;
  std::optional<Answer> (*judge)(const RemedyCase& c);
  bool is_of_training = false;
};

constexpr RemedyRow kRemedies[] = {
    {"a higher limit (memory fraction)", HigherLimit},
    {"more of the RAM for the GPU", MoreOfRam},
    {"a smaller share for what sleeps", SmallerSleeper},
    {"ending other processes", StopOthers},
    {"expandable_segments:True", Expandable},
    {"no desktop, no second process", NoDesktop},
    {"looking for another error", OnCpu},
    {"more shared memory", MoreSharedMemory},
    {"fewer DataLoader workers (num_workers)", FewerWorkers},
    {"more RAM", MoreRam},
    {"loading in parts", LoadInParts},
    {"a smaller batch, or prefetch_factor", SmallerLoaderBatch},
    {"pin_memory=False", NoPinning},
    {"a shorter --max-model-len", ShorterModelLength},
    {"another share of the card", Utilization},
    {"fewer layers on the card (-ngl)", FewerLayers},
    {"a shorter context (-c)", ShorterContext},
    {"a smaller KV cache", SmallerKvCache},
    {"smaller weights", SmallerWeights},
    {"a smaller batch", SmallerBatch},
    {"checkpointing of activations", Checkpointing, true},
    {"mixed precision (autocast)", MixedPrecision},
    {"an optimizer with less state", SmallerOptimizer, true},
    {"float32", Floats},
    {"a larger card", CardWithMore},
    {"lifting the limit of MPS", Watermark},
    {"another way to grow the arena", Arena},
    {"another share of the card for JAX", Preallocation},  // docs.jax.dev, gpu_memory_allocation
    {"memory growth", Growth},
    {"no spilling", NoSpill},
    {"torch.cuda.empty_cache()", EmptyCache},
};

}  // namespace

std::string_view ToString(Help help) { return kHelpNames[static_cast<size_t>(help)]; }

std::vector<OomRemedy> RemediesFor(const OomMessage& message, const OomFacts& facts,
                                   const OomJudgement& judgement) {
  const RemedyCase c = {message, facts, judgement};
  std::vector<OomRemedy> remedies;
  for (const auto rows : {ProgramAdvice(), SystemAdvice()}) {
    for (const OomAdvice& row : rows) {
      if (c.Fits(row)) remedies.push_back({std::string(row.what), row.help, std::string(row.why)});
    }
  }
  for (const RemedyRow& row : kRemedies) {
    const auto answer = row.judge(c);
    if (!answer) continue;
    remedies.push_back({std::string(row.what), answer->help, answer->why, row.is_of_training});
  }
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const OomRemedy& a, const OomRemedy& b) { return a.help < b.help; });
  return remedies;
}

}  // namespace onnxfit

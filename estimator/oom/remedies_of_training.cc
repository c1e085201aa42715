// What makes a step need less, and the settings of frameworks.
#include <fmt/format.h>

#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

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
                                  TextOf(lack))};
}

std::optional<Answer> SmallerBatch(const RemedyCase& c) {
  const bool is_buffer = c.facts.resource == OomResource::kBuffer;
  if (c.Serves() || (!c.IsOfAllMemory() && !is_buffer)) return std::nullopt;
  if (c.message.format->rank == OomRank::kLoose) return std::nullopt;  // "less at once" is told
  const bool has_tensors = c.family() == OomFamily::kTensorFlow || c.family() == OomFamily::kXla;
  const bool is_of_tensors = has_tensors && (c.facts.tried || c.facts.needed);
  const bool has_families =
      c.family() != OomFamily::kCuda && (c.message.format->pattern == nullptr || is_of_tensors);
  if (!has_families && c.HasOwn()) return std::nullopt;  // its own is told
  if (c.IsOfHost() && !c.MayBePyTorch()) return std::nullopt;
  if (c.MayBeLoading()) return std::nullopt;  // the loader's is told
  if (c.IsOfHost()) return Answer{Help::kMaybe, "only if what was asked for grows with it"};
  if (c.Is(OomVerdict::kImpossible)) return BatchOfAbsurdSize(c);
  if (c.Is(OomVerdict::kCapacity) || c.Is(OomVerdict::kSpilled)) return BatchOnFullCard(c);
  if (c.Is(OomVerdict::kFragmented)) {
    return Answer{Help::kMaybe, "it asks for less, but the holes between its tensors stay"};
  }
  if (c.Is(OomVerdict::kOtherProcess)) {
    return Answer{Help::kMaybe, fmt::format("others keep their {} whatever this process does",
                                            TextOf(c.facts.others))};
  }
  return Answer{Help::kMaybe, "if it is this process that fills the card"};
}

bool IsFull(const RemedyCase& c) {
  if (!c.IsOfAllMemory()) return false;
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
  if (c.facts.limited || c.IsOfHost() || !c.IsOfAllMemory()) return std::nullopt;
  if (c.message.format->rank == OomRank::kWarning) return std::nullopt;
  if (c.Is(OomVerdict::kImpossible)) {
    return Answer{
        c.facts.total ? Help::kMaybe : Help::kNo,
        fmt::format("it would need more than {} for this tensor alone", TextOf(c.facts.tried))};
  }
  if (!c.Is(OomVerdict::kCapacity)) return std::nullopt;
  if (c.family() == OomFamily::kVllm && !lack) {
    return Answer{Help::kYes, "what it has more is the KV cache's"};
  }
  if (c.facts.needed && c.facts.tried) {
    return Answer{Help::kYes, fmt::format("one with more than {}", TextOf(c.facts.needed))};
  }
  if (c.HasLayers()) return Answer{Help::kYes, "more layers and a longer context fit"};
  if (!lack || c.family() == OomFamily::kMps) return std::nullopt;
  return Answer{Help::kYes, fmt::format("with {} more it gets past this point, if nothing later "
                                        "needs more",
                                        TextOf(lack))};
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
  if (c.family() != OomFamily::kMps || c.facts.resource == OomResource::kBuffer) {
    return std::nullopt;
  }
  return Answer{Help::kMaybe,
                "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 lifts the limit; macOS then swaps, and may "
                "stop everything"};
}

std::optional<Answer> Arena(const RemedyCase& c) {
  if (c.family() != OomFamily::kOnnxRuntime) return std::nullopt;
  return Answer{Help::kYes,
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

std::optional<Answer> NoSpill(const RemedyCase& c) {
  if (!c.Is(OomVerdict::kSpilled)) return std::nullopt;
  return Answer{Help::kNo,
                "the driver's setting \"CUDA - Sysmem Fallback Policy\" makes it fail sooner, "
                "instead of run slowly"};
}

std::optional<Answer> EmptyCache(const RemedyCase& c) {
  if (c.IsOfHost() && (!c.MayBePyTorch() || !c.IsOfAllMemory())) return std::nullopt;
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

constexpr RemedyRow kRemediesOfTraining[] = {
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

std::span<const RemedyRow> RemediesOfTraining() { return kRemediesOfTraining; }

}  // namespace onnxfit

// What helps vLLM and llama.cpp, by the numbers of their messages.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

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

// What the buffer was for is said in another line.
bool IsOfComputing(const RemedyCase& c) { return c.Says("ggml-compute"); }
bool IsOfCache(const RemedyCase& c) { return c.Says("llamacpp-kv"); }

std::optional<Answer> FewerLayers(const RemedyCase& c) {
  if (!c.IsLlamaCpp()) return std::nullopt;
  return Answer{IsOfComputing(c) || IsOfCache(c) ? Help::kMaybe : Help::kYes,
                "the others are computed by the CPU, from RAM"};
}

std::optional<Answer> ShorterContext(const RemedyCase& c) {
  if (!c.IsLlamaCpp() || c.Is("llamacpp-load")) return std::nullopt;
  return Answer{IsOfCache(c) || IsOfComputing(c) ? Help::kYes : Help::kMaybe,
                "the KV cache and the buffer of computing grow with it"};
}

// ggml-org/llama.cpp, tools/server/README.md: -ub, 512 unless told; -fa.
std::optional<Answer> SmallerMicroBatch(const RemedyCase& c) {
  if (!c.IsLlamaCpp() || c.Is("llamacpp-load")) return std::nullopt;
  return Answer{IsOfComputing(c) ? Help::kYes : Help::kMaybe,
                "-ub 256 (--ubatch-size) halves the buffer of computing; -fa on computes attention "
                "without its scores"};
}

constexpr RemedyRow kRemediesOfServers[] = {
    {"a shorter --max-model-len", ShorterModelLength},
    {"another share of the card", Utilization},
    {"a smaller micro-batch (-ub), flash attention", SmallerMicroBatch},
    {"fewer layers on the card (-ngl)", FewerLayers},
    {"a shorter context (-c)", ShorterContext},
    {"a smaller KV cache", SmallerKvCache},
    {"smaller weights", SmallerWeights},
};

}  // namespace

std::span<const RemedyRow> RemediesOfServers() { return kRemediesOfServers; }

}  // namespace onnxfit

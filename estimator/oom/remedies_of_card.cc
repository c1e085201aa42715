// What helps where limits, other processes or the allocator stand between a program and the card.
#include <fmt/format.h>

#include "estimator/oom/remedy_case.h"

namespace onnxfit {
namespace {

std::optional<Answer> HigherLimit(const RemedyCase& c) {
  const bool is_of_another = c.family() == OomFamily::kCard || c.family() == OomFamily::kRam;
  if (!c.facts.limited || is_of_another || c.message.format->pattern != nullptr) {
    return std::nullopt;
  }
  if (c.family() == OomFamily::kTensorFlow) {
    return Answer{Help::kMaybe, fmt::format("TensorFlow may use {}, which is nearly all of the "
                                            "card unless you set it",
                                            TextOf(c.facts.allowed))};
  }
  if (c.facts.resource == OomResource::kBuffer) return std::nullopt;
  return Answer{
      Help::kYes,
      fmt::format("{} is allowed and in the way{}{}", TextOf(c.facts.allowed),
                  c.facts.free ? fmt::format(": {} of the card is free", TextOf(c.facts.free)) : "",
                  c.IsPyTorch() ? "; torch.cuda.set_per_process_memory_fraction(1.0), or "
                                  "per_process_memory_fraction in PYTORCH_CUDA_ALLOC_CONF"
                                : "")};
}

// paddle/fluid/memory/detail/system_allocator.cc, 1.6 and 1.7, say which share it is.
std::optional<Answer> HigherShare(const RemedyCase& c) {
  if (c.family() != OomFamily::kPaddle || c.message.told.empty()) return std::nullopt;
  constexpr double kNearlyAll = 0.9;
  const bool is_low = ReadDecimal(c.message.told).value < kNearlyAll;
  return Answer{
      is_low ? Help::kYes : Help::kMaybe,
      fmt::format("it is {} now: Paddle takes no more of the card than that", c.message.told)};
}

// docs.kernel.org, amdgpu's module parameters; ttm's limit is half of the RAM.
std::optional<Answer> MoreOfRam(const RemedyCase& c) {
  if (!c.facts.shares_ram) return std::nullopt;
  return Answer{Help::kYes,
                fmt::format("the GPU is given {} of it: the BIOS's UMA frame buffer, or on Linux "
                            "ttm.pages_limit (half of the RAM unless told), say how much",
                            TextOf(c.facts.total))};
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
                            TextOf(c.facts.free))};
}

std::optional<Answer> StopOthers(const RemedyCase& c) {
  if (c.Is(OomVerdict::kOtherProcess)) {
    std::string pids = c.message.others.empty() ? "" : "; processes";
    for (const OtherProcess& other : c.message.others) pids += fmt::format(" {}", other.pid);
    if (!c.facts.tried) {
      return Answer{Help::kYes, fmt::format("they hold {}{}", TextOf(c.facts.others), pids)};
    }
    return Answer{Help::kYes, fmt::format("they hold {}; {} were asked for{}",
                                          TextOf(c.facts.others), TextOf(c.facts.tried), pids)};
  }
  const auto lack = c.facts.Short();
  if (c.IsOwnRam() || !c.IsOfAllMemory() || c.IsOfLimit()) return std::nullopt;
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
  const bool is_bare = !c.facts.tried && !c.facts.needed;
  if (is_bare || (c.family() == OomFamily::kCard && !c.facts.limited)) {
    return Answer{Help::kMaybe, "if there are any: all of them share the card"};
  }
  if (!c.facts.others || !lack) return std::nullopt;
  const bool alone = c.facts.context || c.family() == OomFamily::kMps;
  const std::string held = fmt::format(
      "others{} hold {}", alone ? "" : " and this process' context", TextOf(c.facts.others));
  if (SurelyMore(*lack, *c.facts.others)) {
    return Answer{Help::kNo, fmt::format("{}, {} are missing", held, TextOf(lack))};
  }
  return Answer{Help::kMaybe, fmt::format("{}, {} are missing", held, TextOf(lack))};
}

Answer AgainstPieces(const RemedyCase& c) {
  const std::string_view option = OptionOf(c.message);
  const std::string cached = TextOf(c.facts.cached);
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
                               cached, TextOf(c.facts.tried))};
}

std::optional<Answer> Expandable(const RemedyCase& c) {
  if (!c.IsPyTorch() || c.Is(OomVerdict::kUnknown) || !c.facts.cached || !c.facts.tried) {
    return std::nullopt;
  }
  const std::string cached = TextOf(c.facts.cached);
  if (c.Is(OomVerdict::kFragmented)) return AgainstPieces(c);
  if (c.facts.resource == OomResource::kBuffer) {
    return Answer{Help::kNo, "one allocation is too large, whatever is cached or free"};
  }
  const auto room = c.facts.Room();
  const Amount most = room ? *room + *c.facts.cached : *c.facts.cached;
  if (SurelyMore(*c.facts.tried, most)) {
    return Answer{Help::kNo,
                  fmt::format("it makes use of the cache, which is only {}{}", cached,
                              room ? fmt::format(", and {} is free", TextOf(room)) : "")};
  }
  if (c.Is(OomVerdict::kContradictory) && SurelyMore(*c.facts.tried, *c.facts.cached)) {
    return Answer{Help::kNo, fmt::format("only {} are cached: nothing is in pieces", cached)};
  }
  if (c.Is(OomVerdict::kContradictory)) {
    return Answer{Help::kMaybe, fmt::format("if {} really are cached: {} would fit into them",
                                            cached, TextOf(c.facts.tried))};
  }
  if (c.facts.cached->bytes >= c.facts.tried->bytes) {
    return Answer{Help::kMaybe,
                  fmt::format("{} are cached in pieces; with segments that grow they "
                              "serve {}, and {} nearly full even so",
                              cached, TextOf(c.facts.tried),
                              c.facts.limited ? "what is allowed is" : "the card is")};
  }
  return Answer{Help::kMaybe, fmt::format("with the {} that are cached {} would only just fit",
                                          cached, TextOf(c.facts.tried))};
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

// intel/compute-runtime, programmers-guide/ALLOCATIONS_GREATER_THAN_4GB.md; intel/llvm,
// unified-runtime's environment variables.
std::optional<Answer> RelaxedLimit(const RemedyCase& c) {
  if (!c.Is("xpu-block") && !(c.Is("xpu") && c.facts.resource == OomResource::kBuffer)) {
    return std::nullopt;
  }
  return Answer{
      Help::kYes,
      "Intel's drivers give 4 GiB in one allocation unless it is set; a build that checks "
      "the size itself refuses all the same"};
}

std::optional<Answer> InParts(const RemedyCase& c) {
  if (c.facts.resource != OomResource::kBuffer || !c.IsPyTorch()) return std::nullopt;
  return Answer{Help::kYes, fmt::format("each below {}: torch.chunk, or a smaller batch",
                                        TextOf(c.facts.allowed))};
}

constexpr RemedyRow kRemediesOfCard[] = {
    {"UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1", RelaxedLimit},
    {"the tensor in parts", InParts},
    {"a higher FLAGS_fraction_of_gpu_memory_to_use (0.92)", HigherShare},
    {"a higher limit (memory fraction)", HigherLimit},
    {"more of the RAM for the GPU", MoreOfRam},
    {"a smaller share for what sleeps", SmallerSleeper},
    {"ending other processes", StopOthers},
    {"expandable_segments:True", Expandable},
    {"no desktop, no second process", NoDesktop},
    {"looking for another error", OnCpu},
};

}  // namespace

std::span<const RemedyRow> RemediesOfCard() { return kRemediesOfCard; }

}  // namespace onnxfit

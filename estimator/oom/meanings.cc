// What a message means, in a sentence: by its verdict, its row, and what ran out.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "estimator/base/bytes.h"
#include "estimator/oom/explanation.h"
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

// What it means, by verdict; those of the card being full look closer.
constexpr std::string_view kMeanings[] = {
    "a wrong shape, a broadcast or attention's scores: look at this tensor alone",
    "the driver moved the rest into the host's memory: slow, and now full, too",
    "end them, or take another card: nvidia-smi shows them",
    "free memory is read after the failure, and others may have come and gone",
    "memory is there, but no piece is large enough",
    "the card is full: less has to be kept on it",
    "the numbers have to come from elsewhere: see below",
    "the words are those of memory, but memory is not what was short",
};

struct ResourceMeaning {
  OomResource resource;
  std::string_view text;
};

// Where a row has none of its own.
constexpr ResourceMeaning kMeaningsOfResources[] = {
    {OomResource::kRam, "that is the machine's RAM, not a card's memory"},
    {OomResource::kLimit, "that is a limit of a container or job on RAM, not a card's memory"},
    {OomResource::kPinned, "that is RAM which a card reads from (pinned), not a card's memory"},
    {OomResource::kSharedMemory,
     "processes of one machine hand data over in /dev/shm, of which a container has 64 MiB unless "
     "told: that is neither a card's memory nor all of the RAM"},
    {OomResource::kMappings,
     "a process may have so many mappings of memory (vm.max_map_count): RAM need not be full"},
    {OomResource::kPromised,
     "the system promises no more memory, or the process may have no more addresses: a card has "
     "nothing to do with it"},
    {OomResource::kRequest, "nothing ran: no machine has as much left as was asked for beforehand"},
    {OomResource::kBuffer, "that is the most that one allocation may have: it is not a full card"},
    {OomResource::kOnChip,
     "that is a multiprocessor's own memory, not the card's: a kernel's blocks are too large"},
    {OomResource::kDisk, "a disk is full, not memory"},
    {OomResource::kFiles,
     "the process has as many files open as it may: memory is not what was short"},
    {OomResource::kSessions,
     "the card's encoder opens no more sessions: its memory need not be full"},
};

std::string MeaningOfResource(OomResource resource) {
  const auto row = std::ranges::find(kMeaningsOfResources, resource, &ResourceMeaning::resource);
  return row == std::end(kMeaningsOfResources) ? "" : std::string(row->text);
}

// The cache was looked at, too.
std::string CacheMeaning(const OomFacts& f) {
  constexpr double kLittle = 0.1;  // of what is reserved
  const auto room = f.Room();
  const bool is_little = !f.reserved || f.cached->bytes <= kLittle * f.reserved->bytes;
  if (is_little || !room) {
    return "the cache is too small to matter: nothing is fragmented, the card is full";
  }
  return fmt::format("with all of the cache, {}, {} would be free: still too little",
                     ToString(*f.cached), ToString(*room + *f.cached));
}

std::string CapacityMeaning(const OomFacts& f, const OomFormat& format) {
  const OomReading own = ReadingOf(format);
  if (format.name == "xla-tpu-reserve" && f.resource == OomResource::kBuffer) {
    return fmt::format("{} are free in all, but in pieces: at most {} at once", ToString(*f.free),
                       ToString(*f.allowed));
  }
  if (f.resource != own.resource) return MeaningOfResource(f.resource);
  if (!own.meaning.empty()) return std::string(own.meaning);
  if (f.resource != OomResource::kOfProgram) return MeaningOfResource(f.resource);
  if (f.shares_ram) {
    return fmt::format(
        "no card has {} in all: a GPU within the processor, whose memory is a part "
        "of the host's RAM",
        ToString(*f.total));
  }
  if (IsHostMemory(format.family)) return "the machine's RAM is full, not a card";
  if (f.needed && f.tried) {
    return fmt::format("no card with less than {} can run this program, whatever is free",
                       ToString(*f.needed));
  }
  if (!f.tried) return std::string(kMeanings[static_cast<size_t>(OomVerdict::kCapacity)]);
  if (f.limited && format.family == OomFamily::kTensorFlow) {
    return "TensorFlow's share of the card is full";
  }
  if (f.limited) return "a limit on this process is in the way, not the card";
  if (format.rank == OomRank::kWarning) return "a warning: the program went on, with less";
  const bool is_small = f.tried->bytes <= 20.0 * static_cast<double>(kMiB);
  if (is_small && format.family == OomFamily::kPyTorch) {
    return "a small request was the last straw: look at all that stays, not at this one";
  }
  if (f.cached && f.cached->bytes >= f.tried->bytes) {
    return fmt::format("{} of cache lie in pieces, but tensors hold nearly all: the card is full",
                       ToString(*f.cached));
  }
  const bool is_apart = f.total && f.reserved && !f.free && !f.limited &&
                        f.reserved->bytes + f.tried->bytes < f.total->bytes;
  if (is_apart) return "it is not this process that fills the card: others, or pieces, may";
  if (f.cached) return CacheMeaning(f);
  return std::string(kMeanings[static_cast<size_t>(OomVerdict::kCapacity)]);
}

std::string DisguiseMeaning(const OomFormat& format) {
  const OomReading own = ReadingOf(format);
  if (!own.meaning.empty()) return std::string(own.meaning);
  if (format.family == OomFamily::kJetson) {
    return "PyTorch asked NVML for numbers that a Jetson or a MIG slice does not have";
  }
  if (format.rank == OomRank::kSign) {
    return "the system ends a process that way for want of RAM; one that crashed looks the same";
  }
  if (format.rank == OomRank::kDisguise) {
    return "a library found no memory for its handle; an index out of range looks the same";
  }
  return std::string(kMeanings[static_cast<size_t>(OomVerdict::kUnknown)]);
}

std::string NotMemoryMeaning(const OomExplanation& e) {
  const std::string_view own = ReadingOf(*e.message.format).meaning;
  return own.empty() ? MeaningOfResource(e.facts.resource) : std::string(own);
}

// What the buffer was for, where another line of llama.cpp says so; null where none does.
const OomFormat* PartOf(const OomMessage& message) {
  constexpr std::string_view kParts[] = {"ggml-compute", "llamacpp-kv", "llamacpp-load"};
  if (message.format->family != OomFamily::kLlamaCpp) return nullptr;
  for (const OomFormat& format : OomFormats()) {
    const bool is_part = std::ranges::find(kParts, format.name) != std::end(kParts);
    if (is_part && message.IsBeside(format.name)) return &format;
  }
  return nullptr;
}

}  // namespace

std::string MeaningOf(const OomExplanation& e) {
  const OomVerdict verdict = e.judgement.verdict;
  if (const OomFormat* part = PartOf(e.message)) return std::string(ReadingOf(*part).meaning);
  if (verdict == OomVerdict::kCapacity) return CapacityMeaning(e.facts, *e.message.format);
  if (verdict == OomVerdict::kNotMemory) return NotMemoryMeaning(e);
  if (verdict == OomVerdict::kUnknown) return DisguiseMeaning(*e.message.format);
  if (verdict == OomVerdict::kContradictory) {
    const auto contradictions = Contradictions(e.message, e.facts);
    if (contradictions.size() > 1) return contradictions[1];
  }
  if (verdict == OomVerdict::kOtherProcess && e.message.format->family == OomFamily::kMps) {
    return "on a Mac all programs share this memory: close what is not needed";
  }
  return std::string(kMeanings[static_cast<size_t>(verdict)]);
}

}  // namespace onnxfit

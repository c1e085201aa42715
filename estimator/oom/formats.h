// The out-of-memory messages that we know: one row each, in formats_*.cc by what kind of program
// says them, and a message in tests/data/oom_messages.txt.  Internal to the room oom/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/oom/message.h"
#include "estimator/oom/pattern.h"

namespace onnxfit {

// Who allocates, which decides what phrases mean and what can be done.
enum class OomFamily : uint8_t {
  kPyTorch,  // its caching allocators, for CUDA and those built after it
  kMps,
  kHost,  // RAM, not a card
  kTensorFlow,
  kTheano,
  kPaddle,
  kXla,
  kOnnxRuntime,
  kTensorRt,
  kJetson,
  kCuda,        // the driver or a library, which give no numbers
  kTorchAsync,  // PyTorch with CUDA's own allocator, cudaMallocAsync
  kVllm,
  kLlamaCpp,
  kRam,   // the machine's, as NumPy, the kernel, slurm and Colab tell of it
  kCard,  // a card's, as other programs tell of it
};
std::string_view ToString(OomFamily family);  // "PyTorch", "the machine's RAM" …

// How much a message says: of one process' messages the first of the best rank is explained.
enum class OomRank : uint8_t {
  kFailure,
  kBare,      // without numbers
  kDisguise,  // another error, that full memory often causes
  kLoose,     // words that no row has, of some program
  kWarning,   // the program goes on
  kSign,      // how the system ends a process, for want of memory or another reason
  kState,     // no failure: figures of the machine
  kNumbers,   // no message: figures that belong to one before or after it
};

// What there was too little of.
enum class OomResource : uint8_t {
  kOfProgram,  // what its program asks for as a rule: a card's memory, or RAM
  kRam,
  kLimit,         // RAM that a container or job may take
  kPinned,        // RAM that a card reads from
  kSharedMemory,  // /dev/shm
  kMappings,      // mappings of memory that a process may have
  kPromised,      // memory that the system promises, or addresses that a process may have
  kRequest,       // what nodes have for a job that was not started
  kBuffer,        // the most that one allocation may have, whatever is free
  kOnChip,        // a multiprocessor's own memory
  kDisk,
  kFiles,     // that a process may have open
  kSessions,  // of a card's encoder
};
std::string_view ToString(OomResource resource);  // the JSON's words: "shared_memory", "disk" …
bool IsOfHost(OomResource resource);              // nothing of a card
bool IsMemory(OomResource resource);              // none of a disk's and other limits
bool IsAllMemory(OomResource resource);  // less of anything helps: no limit on a part of it

struct OomFormat {
  std::string_view name;  // the JSON's word
  OomFamily family = OomFamily::kCuda;
  std::string_view versions;  // "" where nobody knows
  OomRank rank = OomRank::kFailure;
  std::string_view head;  // in lower case without white space, as all texts below
  std::string_view mark;  // also in the message; "" for nothing
  std::string_view source;
  std::string_view program = {};  // who says it; "" for what the family is called
  // Where the message is read by its own words, and neither by `mark` nor by OomPhrases().
  const OomPattern* pattern = nullptr;
  std::string_view headline = {};  // behind the verdict, where the message has no numbers
  std::string_view meaning = {};   // what numbers do not say
  OomResource resource = OomResource::kOfProgram;
};
bool IsAnybodys(const OomFormat& format);  // words of any program's runtime, whoever asked
std::string_view ProgramOf(const OomFormat& format);  // "CuPy", "PyTorch", "slurm"

// A row of formats_*.cc: everything about one message.
struct OomRow {
  std::string_view name;
  std::string_view program;  // a row of OomPrograms(), or what a family is called
  std::string_view versions;
  OomRank rank;
  std::string_view says;  // as OomPattern has it; several wordings with " || " between them
  std::string_view headline;
  std::string_view source;
  std::string_view meaning = {};
  OomResource resource = OomResource::kOfProgram;
};
std::span<const OomFormat> PhraseFormats();
std::span<const OomFormat> CutFormats();  // cut off in the middle, or a library's words alone
std::span<const OomRow> FrameworkRows();  // that compute with tensors
std::span<const OomRow> LibraryRows();    // that they call: CUDA's, allocators, compilers
std::span<const OomRow> ServerRows();     // that serve or draw with a model
std::span<const OomRow> GraphicsRows();   // graphics, video, simulation
std::span<const OomRow> RuntimeRows();    // languages, data bases, tables
std::span<const OomRow> SystemRows();     // that end other programs: schedulers, kernels, clouds

// More special ones first.
std::span<const OomFormat> OomFormats();

// What is said of no row's memory, in words that many programs use: "failed to allocate 3 GiB".
const OomFormat& LooseFormat(bool is_card, bool is_ram);

// What a message means that its numbers do not say.
struct OomReading {
  bool is_full = false;            // memory is full for sure, whatever numbers there are
  std::string_view headline = {};  // behind the verdict, where the message has no numbers
  std::string_view meaning = {};   // "" for what numbers say
  std::string_view asked = {};     // " of KV cache asked" in the place of " asked"
  std::string_view free = {};      // "left for it" in the place of "free"
  OomResource resource = OomResource::kOfProgram;
};

// Empty for a format that its numbers explain.
OomReading ReadingOf(const OomFormat& format);

// Whether the message is about the host's memory, and not a card's.
bool IsHostMemory(OomFamily family);

// The heads, or as much of them as finds a message, each one once.
std::vector<std::string_view> OomHeads();
std::span<const std::string_view> LooseHeads();  // of what no row has

// What a number in a message means, by what is written around it.
struct OomPhrase {
  enum class Value : uint8_t { kSize, kGpu, kPid, kListed, kNothing };
  OomFamily family = OomFamily::kPyTorch;
  Value value = Value::kSize;
  OomField field = OomField::kTried;
  std::string_view before;
  std::string_view after;
};

// Of several that fit a number the first holds.
std::span<const OomPhrase> OomPhrases();

// How messages call element types.
struct DTypeSpelling {
  std::string_view name;
  DType dtype;
};
std::span<const DTypeSpelling> OomDTypes();

}  // namespace onnxfit

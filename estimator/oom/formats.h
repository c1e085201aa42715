// The out-of-memory messages that we know: one row a format, one row a phrase with a number.
// A new format is a row here and a message in tests/data/oom_messages.txt.  Internal to the room
// oom/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/oom/message.h"

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
  kRam,  // the machine's, as NumPy, the kernel, slurm and Colab tell of it
};
std::string_view ToString(OomFamily family);  // "PyTorch", "the machine's RAM" …

// How much a message says: of one process' messages the first of the best rank is explained.
enum class OomRank : uint8_t {
  kFailure,
  kBare,      // without numbers
  kDisguise,  // another error, that full memory often causes
  kWarning,   // the program goes on
  kSign,      // how the system ends a process, for want of memory or another reason
  kState,     // no failure: figures of the machine
  kNumbers,   // no message: figures that belong to one before or after it
};

struct OomFormat {
  std::string_view name;  // the JSON's word
  OomFamily family = OomFamily::kCuda;
  std::string_view versions;  // "" where nobody knows
  OomRank rank = OomRank::kFailure;
  std::string_view head;  // in lower case without white space, as all texts below
  std::string_view mark;  // also in the message; "" for nothing
  std::string_view source;
};

// More special ones first.
std::span<const OomFormat> OomFormats();

// What a message means that its numbers do not say.
struct OomReading {
  std::string_view format;      // its name
  bool is_full;                 // memory is full for sure, whatever numbers there are
  std::string_view headline;    // behind the verdict, where the message has no numbers
  std::string_view meaning;     // "" for what numbers say
  std::string_view asked = {};  // " of KV cache asked" in the place of " asked"
  std::string_view free = {};   // "left for it" in the place of "free"
};

// Null for a format that its numbers explain.
const OomReading* ReadingOf(const OomFormat& format);

// Whether the message is about the host's memory, and not a card's.
bool IsHostMemory(OomFamily family);

// The heads, each one once.
std::vector<std::string_view> OomHeads();

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

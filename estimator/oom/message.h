// One out-of-memory message, from its text to plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/oom/printed_bytes.h"

namespace onnxfit {

struct Letters;
struct OomFormat;

// What a message can say.
enum class OomField : uint8_t {
  kTried,         // asked of the card: what did not fit
  kTotal,         // the card
  kFree,          // on the card, read after the failure
  kAllowed,       // what this process may take, where less than the card
  kAllocated,     // by tensors of this process
  kReserved,      // by this process' allocator: allocated, and cached
  kCached,        // reserved, and not allocated
  kPrivatePools,  // of what is allocated: pools of CUDA graphs
  kProcess,       // this process in all, its context included
  kOther,         // others, as Apple's driver counts them
  kParameters,    // XLA's plan
  kTemporaries,
  kPlan,  // what a model or program needs in all
  kUsed,  // of the total, by anybody
};
inline constexpr size_t kOomFields = 14;
std::string_view ToString(OomField field);  // the JSON's words: "tried", "private_pools" …

struct OtherProcess {
  int64_t pid = 0;
  PrintedBytes bytes;

  bool operator==(const OtherProcess&) const = default;
};

// A number that cannot be: below zero, of a size that no machine has, a card of 0 bytes.  It counts
// as not said.
struct DoubtedNumber {
  OomField field = OomField::kTried;
  std::string text = {};  // as written: "-7.14 GiB"

  bool operator==(const DoubtedNumber&) const = default;
};

struct OomMessage;

// Reads sizes of the line around the place into `message`, by common words before and behind them.
void ReadLooseNumbers(const Letters& letters, OomMessage& message);

// Reads what is no number of a message of OomPhrases() between `begin` and `limit`.
void ReadDetails(const Letters& letters, size_t begin, size_t limit, OomMessage& message);

struct OomMessage {
  // Whether a message of PyTorch's is of AMD's build of it.
  bool IsOfHip() const;

  const OomFormat* format = nullptr;  // a row of OomFormats()
  std::string process = {};           // "rank0", "" where the log does not say
  int64_t line = 0;                   // of the log, from 1
  size_t place = 0;                   // in the log, behind the words that found it
  std::string_view app = {};  // a program of OomPrograms() that stands in the lines around it
  std::string text = {};      // as read, at most some lines of it
  std::optional<int64_t> gpu = {};
  std::array<std::optional<PrintedBytes>, kOomFields> sizes = {};
  std::vector<OtherProcess> others = {};  // processes that the message lists
  TensorType tensor = {};                 // that was to be made; kUndefined where nothing says
  std::string node = {};                  // that made it
  std::vector<DoubtedNumber> doubted = {};
  std::vector<std::string_view> also = {};  // formats of its process' other messages
  std::string told = {};                    // what else it says: "131072 tokens asked for …"
  int64_t count = 0;                        // of mappings, so far
  std::optional<int64_t> length = {};       // tokens of a sequence that would have fitted
  bool cut = false;                         // the text ends before the message does

  // Whether another message of its process is of that format.
  bool IsBeside(std::string_view name) const;

  const std::optional<PrintedBytes>& Size(OomField field) const {
    return sizes[static_cast<size_t>(field)];
  }
  std::optional<PrintedBytes>& Size(OomField field) { return sizes[static_cast<size_t>(field)]; }
};

// The message around letters.place, which one of OomHeads() ends at; nullopt where those letters
// say something else.  `end` becomes the place in the log behind it.  O(letters × phrases).
std::optional<OomMessage> ReadOomMessage(const Letters& letters, size_t& end);

// The same of LooseHeads(): a sentence in which a program says, in words that no row has, that it
// got no memory.  Nullopt for advice, conditions and limits that are only told.
std::optional<OomMessage> ReadLooseMessage(const Letters& letters, size_t& end);

}  // namespace onnxfit

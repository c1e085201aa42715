// The answer to "what does this out-of-memory message mean, and what do I change?"
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/oom/log.h"
#include "estimator/oom/message.h"
#include "estimator/oom/verdict.h"

namespace onnxfit {

// What people try after an out-of-memory message, and what the numbers say about it.
enum class Help : uint8_t { kYes, kMaybe, kNo };
std::string_view ToString(Help help);  // "yes", "maybe", "no"

struct OomRemedy {
  std::string what = {};
  Help help = Help::kMaybe;
  std::string why = {};         // with the message's numbers
  bool is_of_training = false;  // nothing where no step trains
};

// A part of the card.  They add up to its total, unless the message contradicts itself.
struct OomPart {
  enum class What : uint8_t {
    kTensors,
    kCached,
    kHeld,  // by anybody
    kContext,
    kOthers,
    kOthersAndContext,
    kFree,
    kUntold,  // what the message leaves
  };
  What what = What::kTensors;
  int64_t bytes = 0;
  int64_t error = 0;         // the rounding of the message
  std::string printed = {};  // its digits, "" for what was reckoned
};
std::string SizeOf(const OomPart& part);        // "15.90 GiB"
std::string_view ToString(OomPart::What what);  // "tensors", "others and context" …

// What was asked of the card, read back to the tensor that asked.
struct OomRequest {
  int64_t low_bytes = 0;  // of the tensor
  int64_t high_bytes = 0;
  std::vector<std::string> notes = {};  // sentences
  std::string factors = {};             // of an exact size
  std::vector<TensorType> shapes = {};  // that have this size: a guess
};

struct OomExplanation {
  OomMessage message;
  int64_t more = 0;  // other messages of this process
  OomFacts facts;
  OomJudgement judgement;
  std::array<std::string, 3> summary = {};  // what happened; the first one begins with the verdict
  std::vector<std::string> notes = {};      // what stays open
  int64_t card_bytes = 0;                   // 0 where the message does not say
  std::string card_text = {};               // the same in its digits
  std::vector<OomPart> card = {};
  std::optional<OomRequest> request = {};
  std::vector<OomRemedy> remedies = {};
  std::vector<std::string> commands = {};
};

OomExplanation ExplainOom(const ProcessOom& process);

// What it means, in small letters and without a point: "a limit on this process is in the way …".
std::string MeaningOf(const OomExplanation& e);

// The sizes of tensors that make an allocator ask for `tried`.  PyTorch's asks for segments: 2 MiB
// for a tensor up to 1 MiB, 20 MiB below 10 MiB, else multiples of 2 MiB
// (c10/cuda/CUDACachingAllocator.cpp, get_allocation_size).
OomRequest RequestOf(const OomMessage& message);

// Remedies that fit the message's framework: what helps first, then what may, then what cannot.
std::vector<OomRemedy> RemediesFor(const OomMessage& message, const OomFacts& facts,
                                   const OomJudgement& judgement);

// Lines to type, for bash, PowerShell and Python, where an option of the allocator helps; else
// those that show what the message does not.
std::vector<std::string> CommandsFor(const OomMessage& message, const OomFacts& facts,
                                     const OomJudgement& judgement);

}  // namespace onnxfit

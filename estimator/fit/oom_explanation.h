// The answer to "what does this out-of-memory message mean, and what do I change?"
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/tensor_type.h"
#include "estimator/fit/oom_log.h"
#include "estimator/fit/oom_remedies.h"
#include "estimator/fit/oom_verdict.h"

namespace onnxfit {

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

// The sizes of tensors that make an allocator ask for `tried`.  PyTorch's asks for segments: 2 MiB
// for a tensor up to 1 MiB, 20 MiB below 10 MiB, else multiples of 2 MiB
// (c10/cuda/CUDACachingAllocator.cpp, get_allocation_size).
OomRequest RequestOf(const OomMessage& message);

}  // namespace onnxfit

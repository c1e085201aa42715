// What people try after an out-of-memory message, and what the numbers say about it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/oom_message.h"
#include "estimator/fit/oom_verdict.h"

namespace onnxfit {

enum class Help : uint8_t { kYes, kMaybe, kNo };
std::string_view ToString(Help help);  // "yes", "maybe", "no"

struct OomRemedy {
  std::string what = {};
  Help help = Help::kMaybe;
  std::string why = {};         // with the message's numbers
  bool is_of_training = false;  // nothing where no step trains
};

// Those that fit the message's framework: what helps first, then what may, then what cannot.
std::vector<OomRemedy> RemediesFor(const OomMessage& message, const OomFacts& facts,
                                   const OomJudgement& judgement);

// Lines to type, for bash, PowerShell and Python, where an option of the allocator helps; else
// those that show what the message does not.
std::vector<std::string> CommandsFor(const OomMessage& message, const OomJudgement& judgement);

}  // namespace onnxfit

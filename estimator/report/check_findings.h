// What a check found, as the formats need it that list problems: a rule for each, what to do, a
// fingerprint.  Internal to the room report/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/check.h"

namespace onnxfit {

enum class Finding : uint8_t { kNoAnswer, kOutOfMemory, kTightFit, kOverBudget, kMemoryGrew };

// One row for each finding, in their order.  Services keep what they know of a problem under its
// id: an id is never renamed.
struct FindingRule {
  std::string_view id;
  std::string_view title;   // a few words
  std::string_view says;    // a sentence
  std::string_view advice;  // what to do
};
inline constexpr FindingRule kFindingRules[] = {
    {"no-answer", "A check has no answer",
     "The model could not be read, or what the config says of the check is wrong.",
     "Correct what the message names: until then nothing is known of this check's memory."},
    {"out-of-memory", "A run does not fit its GPU",
     "PyTorch would raise an out-of-memory error on the card that the budget names.",
     "Run `onnxfit estimate` with the same settings and this card: it lists changes that fit."},
    {"tight-fit", "A run only just fits its GPU",
     "The run fits the card's own size, but not with all that is uncertain, and the check is "
     "strict.",
     "Take less memory, or let the check be less strict."},
    {"over-budget", "A run takes more than its budget",
     "The run needs more memory than the check's budget allows.",
     "Take less memory, or raise the budget where this is meant."},
    {"memory-grew", "A run takes more memory than before",
     "The run needs more memory than it did, by more than the check allows.",
     "Undo what grew, or, where this is meant, let the check grow by that much."},
};

// What its Headline is about.  REQUIRES: row.status >= CheckStatus::kWarn.
Finding FindingOf(const CheckRow& row);
const FindingRule& RuleOf(const CheckRow& row);

// What to do about it, "" where there is nothing to do.
std::string AdviceFor(const CheckAnswer& answer, const CheckRow& row);

// `text` as one line without control characters.
std::string PlainLine(std::string_view text);

// All of Details as such lines; one of several lines is several.
std::vector<std::string> PlainDetails(const CheckRow& row, size_t most = 10);

// The same in every run that finds this of the check of this name, whatever its numbers.
// REQUIRES: row.status >= CheckStatus::kWarn.
std::string FingerprintOf(const CheckRow& row);

// The file that `row` is about, without "./" and "a/../": the config, or the lock where that is the
// trouble.
std::string FileOf(const CheckAnswer& answer, const CheckRow& row);

}  // namespace onnxfit

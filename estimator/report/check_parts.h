// What all formats of a check say, in the same words.  Internal to the room report/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/compare/check.h"

namespace onnxfit {

// "PASS", "WARN", "FAIL", "NEW", "GONE", "OFF", "ERROR": logs are searched for them.
std::string_view StatusWord(CheckStatus status);

// "FAIL: 1 fail, 1 new, 4 pass": all of a run in a line; PASS, WARN, FAIL or ERROR.
std::string SummaryLine(const CheckAnswer& answer);

// "grew by 392.0 MiB (+24.1%) at layer1.*/relu (3), 0 B allowed": one row's reason in a
// line, without its name; for a row that passes "1.6 GiB, as before".  Plain text.
std::string Headline(const CheckRow& row);

// All reasons (what Headline says is the first), up to `most` of the places that grew
// ("+196.0 MiB layer1.*/relu (3)"), settings that changed, the config's message: a line each.
std::vector<std::string> Details(const CheckRow& row, size_t most = 10);

enum class Finding : uint8_t {
  kNoAnswer,
  kOutOfMemory,
  kTightFit,
  kOverBudget,
  kMemoryGrew,
  kNotCompared
};

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
    {"not-compared", "A check is compared with nothing",
     "The lock is missing or of another onnxfit, or it and the config do not have the same checks: "
     "growth would not be seen.",
     "Compare with something that has the check."},
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

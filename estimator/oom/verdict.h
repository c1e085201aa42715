// What the numbers of an out-of-memory message mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/oom/formats.h"
#include "estimator/oom/message.h"

namespace onnxfit {

enum class OomVerdict : uint8_t {
  kImpossible,     // more was asked than the card has
  kSpilled,        // tensors hold more than the card has: some are in the host's memory
  kOtherProcess,   // others hold much of the card
  kContradictory,  // the numbers do not fit one another
  kFragmented,     // the cache would do, were it in one piece
  kCapacity,       // the card is full
  kUnknown,        // there are no numbers
  kNotMemory,      // a disk, files or an encoder's sessions, though the words are those of memory
};
std::string_view ToString(OomVerdict verdict);  // "OTHER PROCESS"; the JSON's is in lower case

// A quantity that lies within `error` of `bytes`.
struct Amount {
  double bytes = 0;
  double error = 0;
  std::string printed = {};  // as the message says it; "" for what was reckoned

  int64_t rounded() const { return static_cast<int64_t>(bytes); }
};
Amount operator+(const Amount& a, const Amount& b);
Amount operator-(const Amount& a, const Amount& b);
std::string ToString(
    const Amount& amount);  // "15.90 GiB": the digits of the message, if it has any

// What follows from a message; absent where it cannot be told, or would be below zero.
struct OomFacts {
  std::optional<Amount> tried = {};
  std::optional<Amount> total = {};
  std::optional<Amount> free = {};
  std::optional<Amount> allowed = {};
  std::optional<Amount> allocated = {};
  std::optional<Amount> reserved = {};
  std::optional<Amount> cached = {};
  std::optional<Amount> context = {};  // of this process: what it holds beside `reserved`
  std::optional<Amount> others = {};   // total - free - this process (its context, if not known)
  std::optional<Amount> needed = {};   // in all, by a plan that was made beforehand
  std::optional<Amount> used = {};     // of the total, by anybody
  std::optional<Amount> temporaries = {};  // of what is needed
  bool shares_ram = false;                 // the card's total is a part of the host's RAM
  bool limited = false;                    // `allowed` is what was too small, not the card
  OomResource resource = OomResource::kOfProgram;

  // What was left for this process: free memory, or less where a limit is.
  std::optional<Amount> Room() const;
  // tried - Room(), or what a plan needs above what there is; absent where that is not above 0.
  std::optional<Amount> Short() const;
};

OomFacts FactsOf(const OomMessage& message);

struct OomJudgement {
  OomVerdict verdict = OomVerdict::kUnknown;
  std::vector<OomVerdict> may_be = {};  // what it is too, elsewhere within the rounding
  bool partly = false;                  // fragmented: with what is free, the cache would do
};

// The classes, in their order, and shares of oom-messages: 20 % or 1.5 GiB held by others, 10 %
// of what is reserved for a cache in pieces (5 %, with what is free).  A verdict is taken from
// the numbers as printed; `may_be` from all that round to them.
OomJudgement Judge(const OomMessage& message, const OomFacts& facts);

// Why numbers contradict one another, a sentence each; empty where they do not.
std::vector<std::string> Contradictions(const OomMessage& message, const OomFacts& facts);

}  // namespace onnxfit

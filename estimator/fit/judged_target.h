// A card with its verdict, and what would change it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

// What a change takes, cheapest first.
enum class CostClass : uint8_t {
  kFree,        // the same numbers, as fast
  kTime,        // the same numbers, later
  kTuning,      // other settings have to be found again
  kPrecision,   // fewer digits
  kTrainsLess,  // less is learnt, or from less
  kMoney,       // another card
};
std::string_view ToString(CostClass cost_class);  // "free", …, "trains less", "money"

enum class Effect : uint8_t {
  kEnough,  // at a batch: it runs, or fits where it was tight.  Largest batch: it grows
  kSome,    // saves bytes, but not enough
  kNone,    // `why` says why
};
std::string_view ToString(Effect effect);  // "enough", "some", "none"

struct Advice {
  std::string change = {};  // "mixed precision"
  std::string flags = {};   // what to type: "-p amp-bf16"; "" where there is nothing
  std::string cost = {};    // a short sentence
  CostClass cost_class = CostClass::kFree;
  Effect effect = Effect::kEnough;
  std::string why = {};                     // in numbers; "" where the other fields say it all
  std::optional<Judgement> judgement = {};  // of the changed run, at the batch asked
  std::optional<int64_t> max_batch = {};    // of the changed run, where that was asked
  int64_t accumulate = 1;                   // so many batches make a step
  int64_t saved_bytes = 0;                  // of what is used at the batch asked, if above 0
};

struct JudgedTarget {
  Target target;
  Judgement judgement;
  std::vector<Advice> advice = {};  // where it was asked for and the run does not fit
};

}  // namespace onnxfit

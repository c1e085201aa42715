// Other cards, and more of them.  Internal to the room advise/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/advise/advice.h"
#include "estimator/advise/changes.h"
#include "estimator/advise/trials.h"
#include "estimator/base/cards.h"
#include "estimator/fit/verdict.h"

namespace onnxfit {

struct LargerCard {
  Target target;
  Judgement judgement;
};

// The smallest card of the table, from `least_bytes` on, on which the run is better than `before`
// (runs, or fits where it was tight).  Not among them: laptops and boards, which nobody puts into
// a computer, cards that the framework has no kernels for, and for bf16 those before 8.0.
std::optional<LargerCard> FindLargerCard(const AdviceCase& c, const Judgement& before,
                                         int64_t least_bytes);

// "--gpu a10": its name and size as a line of advice.
Advice AdviceOf(const LargerCard& card);

// The run on several of its cards that share the model (FSDP2), as few as are enough of 2, 4, … 64;
// nullopt where there are none, or where ranks share it already.
std::optional<Trial> FindShardedRun(const AdviceCase& c, const Judgement& before);

// Where even one sample is too much for every card: how many would hold it together, with
// parameters, gradients and optimizer state shared evenly (ZeRO-3, FSDP) and one sample's
// activations on each.  nullopt where a card of the table holds one sample.
std::optional<Advice> SeveralCards(const AdviceCase& c);

}  // namespace onnxfit

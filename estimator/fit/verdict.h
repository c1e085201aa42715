// Does a run fit a card?  What PyTorch's allocator does on a full one decides, not a sum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/missing_bytes.h"
#include "estimator/base/settings.h"
#include "estimator/fit/target.h"
#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

inline constexpr int kVerdictSteps = 10;  // a card that runs one step may still fail in the fourth

enum class Verdict : uint8_t {
  kFits,   // runs without a retry, on cards a few MiB smaller and larger too, whatever is uncertain
  kTight,  // runs on the card's own size, but something of that does not hold
  kOom,    // fails
};
std::string_view ToString(Verdict verdict);  // "fits", "tight", "oom": the JSON's words

// Where a run fails: the first allocation for which there is no room.
struct Failure {
  int32_t step = 0;  // from 1, 0 for setup
  Phase phase = Phase::kSetup;
  std::string node = {};  // the operator that asked, "" between operators
  int64_t asked_bytes = 0;
  int64_t short_bytes = 0;  // of tried_bytes: what was neither cached nor left on the card
  int64_t tried_bytes = 0;  // what PyTorch says that it tried to allocate for it
};

// The same run by what its file most likely means.
struct GuessedUse {
  Verdict verdict = Verdict::kFits;
  int64_t used_bytes = 0;
};

struct Judgement {
  Verdict verdict = Verdict::kFits;
  int64_t usable_bytes = 0;  // of the card for this process, its context included
  int64_t used_bytes = 0;    // context and what was reserved on this card; oom: what an endless
                             // card would be asked for
  int64_t low_bytes = 0;     // the same with the ends of what is uncertain
  int64_t high_bytes = 0;
  int64_t retries = 0;                    // how often cached memory went back to the card first
  std::vector<std::string> reasons = {};  // tight: what does not hold, a sentence each
  std::optional<Failure> fails_at = {};   // oom
  std::optional<int64_t> processes = {};  // inference: how many fit side by side, a context each
  std::optional<int64_t> copies = {};     // inference: of the model, in one process, in turns

  // Where the file leaves open what decides, all of this is of the worse reading: flags that say
  // so, and what the guess takes.
  std::string reading = {};  // "--in-place known"; "" as guessed
  std::optional<GuessedUse> guessed = {};

  double share() const;  // used of usable
};

// What was found out about a run, for all who play it; `plays` are shared by runs that may be
// alike.
class KnownPlays;
std::shared_ptr<KnownPlays> NewKnownPlays(std::shared_ptr<EndlessPlays> plays);

// A run, ready to be played on cards.  Without an owner, what it points to must outlive it.
struct PlayableRun {
  const Trace* trace = nullptr;  // of ReadLoop's steps
  const Loop* loop = nullptr;
  std::vector<int64_t> bytes = {};  // by BufferId
  AllocatorConf conf = {};
  int64_t unmodelled_bytes = 0;  // what cuDNN may ask for beyond the trace, at most
  bool is_inference = false;
  int64_t nccl_bytes = 0;                  // what NCCL may ask for, of ranks
  MissingBytes missing = {};               // what is not in the trace though it takes memory
  std::shared_ptr<const void> owner = {};  // of trace and loop, where nobody else keeps them
  std::shared_ptr<KnownPlays> known = {};  // of this very run; null: nothing is kept

  int64_t beside_bytes() const { return unmodelled_bytes + nccl_bytes; }
  // The room that FITS leaves beside `reserved_bytes`.
  int64_t room_beside(int64_t reserved_bytes) const;
};

// How many groups of ranks the first one is of that send each other something: each dimension of a
// mesh has a communicator of its own (torch/distributed/device_mesh.py, pytorch v2.11.0).
int64_t CountCommunicators(const TrainingSettings& settings);

// The room that verdicts leave for NCCL's buffers, those of many channels (base/nccl.h) for each
// communicator: nothing where the context is told (--overhead), which is then taken to have them.
int64_t MostNcclBytes(const TrainingSettings& settings, bool is_context_told);

// Plays the run on the card's own size, and on sizes of 2, 4 and 8 MiB more and less where the
// first needs no retry.  O(steps × calls × log), up to seven times.
Judgement Judge(const PlayableRun& run, const Target& target);

// Of a run that takes `reserved_bytes`, what may come on top of them and has no room, or is not
// known, a sentence each.  Does not look at its trace.
std::vector<std::string> OpenReasons(const PlayableRun& run, const Target& target,
                                     int64_t reserved_bytes);

// The worse of two readings of one file: what fails before what is tight before what fits, then
// what takes more.  `flags` say the other one.
Judgement WorseOf(Judgement guessed, Judgement other, const std::string& flags);

// The same on the card's own size alone: whether it runs at all.
bool RunsOn(const PlayableRun& run, const Target& target);

// Whether the verdict is FITS, for less than Judge takes where it is not.
bool FitsOn(const PlayableRun& run, const Target& target);

// What follows is a card with its verdict, and what would change it.

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
  int slower_percent = 0;   // a step takes so much longer, as `source` says; below 0: less long
  std::string source = {};  // of that figure; "" where nobody measured it
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

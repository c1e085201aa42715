#include "estimator/fit/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/nccl.h"
#include "estimator/memory/allocator.h"
#include "estimator/memory/card_run.h"

namespace onnxfit {

// A card that is never full changes nothing: the run reserves as much on each of these.
class KnownPlays {
 public:
  explicit KnownPlays(std::shared_ptr<EndlessPlays> endless) : endless_(std::move(endless)) {}

  // What a play on a card of that room is, if it was played, or need not be.
  std::optional<CardRun> Find(const CardRoom& room) const {
    const std::lock_guard lock(mutex_);
    if (endless_bytes_ && *endless_bytes_ <= room.capacity_bytes) {
      return CardRun{.fits = true, .peak_reserved_bytes = *endless_bytes_};
    }
    const auto found = plays_.find({room.capacity_bytes, room.held_bytes});
    return found == plays_.end() ? std::nullopt : std::optional(found->second);
  }

  void Add(const CardRoom& room, const CardRun& played) {
    const std::lock_guard lock(mutex_);
    if (played.fits && played.retries == 0) {
      endless_bytes_ = played.peak_reserved_bytes;
    } else {
      plays_.emplace(std::pair(room.capacity_bytes, room.held_bytes), played);
    }
  }

  // What it reserves on an endless card.  REQUIRES: nothing else says when a card is full.
  int64_t EndlessBytes(const Loop& loop, std::span<const int64_t> bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (endless_bytes_) return *endless_bytes_;
    }
    const int64_t reserved = endless_->ReservedBytes(loop, bytes, kVerdictSteps);
    const std::lock_guard lock(mutex_);
    endless_bytes_ = reserved;
    return reserved;
  }

 private:
  const std::shared_ptr<EndlessPlays> endless_;
  mutable std::mutex mutex_;                              // of all that follows
  std::optional<int64_t> endless_bytes_;                  // reserved on an endless card
  std::map<std::pair<int64_t, int64_t>, CardRun> plays_;  // by room, of cards that were full
};

std::shared_ptr<KnownPlays> NewKnownPlays(std::shared_ptr<EndlessPlays> plays) {
  return std::make_shared<KnownPlays>(std::move(plays));
}

namespace {

constexpr int64_t kMostCopies = 1000;  // an answer beyond this is of no use to anyone

// What the model puts on the card: all that setup allocates.
std::vector<BufferId> PlacedBuffers(const Loop& loop) {
  std::vector<BufferId> placed;
  for (const Loop::Call& call : loop.CallsOf(0)) {
    if (!call.frees) placed.push_back(call.buffer);
  }
  return placed;
}

bool FitsTimes(const PlayableRun& run, const Target& target, int64_t copies) {
  const std::vector<BufferId> placed = PlacedBuffers(*run.loop);
  Loop loop = *run.loop;
  PlayableRun many = run;
  many.known.reset();
  std::vector<Loop::Call> more;
  for (int64_t copy = 1; copy < copies; ++copy) {
    for (const BufferId buffer : placed) {
      more.push_back({.buffer = static_cast<BufferId>(many.bytes.size())});
      many.bytes.push_back(run.bytes[Index(buffer)]);
    }
  }
  const size_t setup_end = loop.CallsOf(0).size();
  loop.calls.insert(loop.calls.begin() + static_cast<int64_t>(setup_end), more.begin(), more.end());
  for (size_t step = 1; step < loop.steps.size(); ++step) loop.steps[step] += more.size();
  for (int64_t& at : loop.cache_emptied_at) {
    if (Index(at) >= setup_end) at += static_cast<int64_t>(more.size());
  }
  for (size_t id = loop.twins.size(); id < many.bytes.size() && loop.repeats(); ++id) {
    loop.twins.push_back(static_cast<BufferId>(id));
  }
  many.loop = &loop;
  return RunsOn(many, target);
}

// How many copies of a model fit in one process, one context for all, each asked in turn for a
// batch: their parameters stay, the rest is shared.  Found by halving, each count played.
// REQUIRES: one fits.  O(log) plays.
int64_t MostCopies(const PlayableRun& run, const Target& target) {
  int64_t placed_bytes = 1;
  for (const BufferId buffer : PlacedBuffers(*run.loop)) placed_bytes += run.bytes[Index(buffer)];
  int64_t fits = 1;
  int64_t fails = std::min(target.capacity_bytes() / placed_bytes, kMostCopies) + 1;
  while (fails - fits > 1) {
    const int64_t middle = fits + (fails - fits) / 2;
    (FitsTimes(run, target, middle) ? fits : fails) = middle;
  }
  return fits;
}

// How far off a card's size may be: totals of one card differ by a few MiB between drivers.
constexpr int64_t kNearby[] = {-2 * kMiB, 2 * kMiB, -4 * kMiB, 4 * kMiB, -8 * kMiB, 8 * kMiB};

// Whether a full card shows itself by a retry, and nothing but its size says when it is full.
bool IsPlain(const AllocatorConf& conf) {
  return conf.memory_fraction >= 1 && !conf.expandable_segments &&
         conf.max_split_bytes == AllocatorConf::kUnlimited;
}

CardRun PlayIn(const PlayableRun& run, const CardRoom& room) {
  KnownPlays* known = IsPlain(run.conf) ? run.known.get() : nullptr;
  if (known != nullptr) {
    if (const std::optional<CardRun> found = known->Find(room)) return *found;
  }
  const CardRun played = RunOnCard(*run.loop, run.bytes, kVerdictSteps, room, run.conf);
  if (known != nullptr) known->Add(room, played);
  return played;
}

CardRun PlayOn(const PlayableRun& run, const Target& target, int64_t capacity_bytes) {
  return PlayIn(
      run, {std::max<int64_t>(0, capacity_bytes), target.total_bytes - target.capacity_bytes()});
}

int64_t EndlessReservedBytes(const PlayableRun& run) {
  if (IsPlain(run.conf)) {
    if (run.known != nullptr) return run.known->EndlessBytes(*run.loop, run.bytes);
    return EndlessPlays(run.conf).ReservedBytes(*run.loop, run.bytes, kVerdictSteps);
  }
  constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();
  AllocatorConf conf = run.conf;
  conf.memory_fraction = 1;  // of an endless card, no share is a limit
  return RunOnCard(*run.loop, run.bytes, kVerdictSteps, {kEndless}, conf).peak_reserved_bytes;
}

// per_process_memory_fraction: of the whole card, whoever holds it.
int64_t LimitBytes(const AllocatorConf& conf, const Target& target) {
  if (conf.memory_fraction >= 1) return target.total_bytes;
  return static_cast<int64_t>(conf.memory_fraction * static_cast<double>(target.total_bytes));
}

Failure FailureOf(const PlayableRun& run, const Target& target, const CardRun& played) {
  const TracePlace place = PlaceOf(*run.trace, played.failed_event);
  const int64_t tried = TriedBytes(played.asked_bytes, run.conf);
  const int64_t room = std::min(target.capacity_bytes(), LimitBytes(run.conf, target));
  return {.step = played.failed_step,
          .phase = place.phase,
          .node = place.at < 0 ? "" : run.trace->labels[Index(place.at)],
          .asked_bytes = played.asked_bytes,
          .short_bytes = std::max<int64_t>(0, tried + played.reserved_bytes - room),
          .tried_bytes = tried};
}

std::string Times(int64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

std::string RetryReason(int64_t retries) {
  return fmt::format(
      "the card is full {} in {} steps: cached memory goes back first, which takes "
      "time",
      Times(retries), kVerdictSteps);
}

// The first size nearby on which the run is not as smooth, in words; "" where there is none.
// REQUIRES: on the card's own size it is.
std::string NearbyReason(const PlayableRun& run, const Target& target, int64_t reserved) {
  const bool is_limited = run.conf.memory_fraction < 1;
  if (!is_limited && reserved + 8 * kMiB <= target.capacity_bytes()) return "";  // never full
  for (const int64_t change : kNearby) {
    const bool is_enough = reserved <= target.capacity_bytes() + change;
    if (IsPlain(run.conf) && is_enough) continue;
    const CardRun played = PlayOn(run, target, target.capacity_bytes() + change);
    if (played.fits && played.retries == 0) continue;
    return fmt::format(
        "with {} MiB {} it {}", std::abs(change) / kMiB, change < 0 ? "less" : "more",
        played.fits ? "needs retries" : fmt::format("fails in step {}", played.failed_step));
  }
  return "";
}

// What may come on top, and what that leaves short.
std::string UncertaintyReason(const PlayableRun& run, const Target& target, int64_t reserved) {
  const int64_t more = target.capacity_bytes() - target.least_capacity_bytes();
  const int64_t missing = reserved + run.beside_bytes() - target.least_capacity_bytes();
  if (missing <= 0) return "";
  std::string causes;
  if (more > 0) causes = fmt::format("context and others may take {} more", FormatBytes(more));
  const auto add = [&](std::string_view who, int64_t bytes) {
    if (bytes <= 0) return;
    causes += fmt::format("{}{} may ask for up to {}", causes.empty() ? "" : ", ", who,
                          FormatBytes(bytes));
  };
  add("cuDNN", run.unmodelled_bytes);
  add("NCCL", run.nccl_bytes);
  return fmt::format("{}: then {} are missing", causes, FormatBytes(missing));
}

// What the answer may lack, and what as much again leaves short.
std::string MissingReason(const PlayableRun& run, const Target& target, int64_t reserved) {
  const int64_t room = target.least_capacity_bytes() - reserved;
  const int64_t missing = run.room_beside(reserved) - room;
  if (run.missing.bounded.empty() || missing <= 0) return "";
  return fmt::format("{}: for as much again {} are missing", fmt::join(run.missing.bounded, ", "),
                     FormatBytes(missing));
}

void SetUsed(const PlayableRun& run, const Target& target, int64_t reserved, Judgement& j) {
  const ContextBytes& context = target.device.context;
  const int64_t limit = LimitBytes(run.conf, target);  // of tensors and cache
  j.usable_bytes = std::min(target.usable_bytes(), CheckedAdd(limit, context.bytes));
  j.used_bytes = CheckedAdd(reserved, context.bytes);
  j.low_bytes = CheckedAdd(reserved, context.low);
  j.high_bytes = CheckedAdd(CheckedAdd(reserved, context.high), run.beside_bytes());
}

std::vector<std::string> TightReasons(const PlayableRun& run, const Target& target,
                                      const CardRun& played) {
  std::vector<std::string> reasons;
  const auto add = [&](std::string reason) {
    if (!reason.empty()) reasons.push_back(std::move(reason));
  };
  if (played.retries > 0) add(RetryReason(played.retries));
  if (played.retries == 0) add(NearbyReason(run, target, played.peak_reserved_bytes));
  for (std::string& reason : OpenReasons(run, target, played.peak_reserved_bytes)) {
    add(std::move(reason));
  }
  return reasons;
}

void SetInference(const PlayableRun& run, const Target& target, int64_t reserved, Judgement& j) {
  const int64_t each = CheckedAdd(reserved, target.device.context.high);
  j.processes = std::max<int64_t>(target.usable_bytes() / each, j.verdict == Verdict::kOom ? 0 : 1);
  j.copies = j.verdict == Verdict::kOom ? 0 : MostCopies(run, target);
}

}  // namespace

std::string_view ToString(Verdict verdict) {
  constexpr std::string_view kNames[] = {"fits", "tight", "oom"};
  return kNames[static_cast<size_t>(verdict)];
}

double Judgement::share() const {
  const auto usable = static_cast<double>(std::max<int64_t>(usable_bytes, 1));
  return static_cast<double>(used_bytes) / usable;
}

std::vector<std::string> OpenReasons(const PlayableRun& run, const Target& target,
                                     int64_t reserved_bytes) {
  std::vector<std::string> reasons = run.missing.unbounded;
  reasons.insert(reasons.begin(), {UncertaintyReason(run, target, reserved_bytes),
                                   MissingReason(run, target, reserved_bytes)});
  std::erase(reasons, "");
  return reasons;
}

int64_t PlayableRun::room_beside(int64_t reserved_bytes) const {
  if (missing.bounded.empty()) return beside_bytes();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return beside_bytes() + std::min(reserved_bytes, kMost - beside_bytes());
}

int64_t CountCommunicators(const TrainingSettings& settings) {
  const RankSettings& ranks = settings.ranks;
  int64_t count = ranks.tensor_parallel > 1 ? 1 : 0;
  const bool trains = settings.mode == Mode::kTrain && ranks.strategy != Strategy::kNone;
  if (!trains) return count;
  const int64_t sharing = SharingRanks(ranks);
  if (sharing > 1) ++count;
  if (ranks.fsdp_reshard > 1 && ranks.fsdp_reshard < sharing) ++count;
  return ranks.world > sharing ? count + 1 : count;
}

int64_t MostNcclBytes(const TrainingSettings& settings, bool is_context_told) {
  return is_context_told ? 0 : CountCommunicators(settings) * NcclMuchBytes();
}

bool RunsOn(const PlayableRun& run, const Target& target) {
  return PlayOn(run, target, target.capacity_bytes()).fits;
}

bool FitsOn(const PlayableRun& run, const Target& target) {
  if (!run.missing.unbounded.empty()) return false;
  if (IsPlain(run.conf)) {
    const int64_t reserved = EndlessReservedBytes(run);
    const int64_t nearby = std::max<int64_t>(0, target.capacity_bytes() - 8 * kMiB);
    return reserved <= nearby &&
           run.room_beside(reserved) <= target.least_capacity_bytes() - reserved;
  }
  const CardRun played = PlayOn(run, target, target.capacity_bytes());
  if (!played.fits || played.retries > 0) return false;
  const int64_t reserved = played.peak_reserved_bytes;
  return UncertaintyReason(run, target, reserved).empty() &&
         MissingReason(run, target, reserved).empty() &&
         NearbyReason(run, target, reserved).empty();
}

Judgement WorseOf(Judgement guessed, Judgement other, const std::string& flags) {
  const auto rank = [](const Judgement& j) { return std::tuple(j.verdict, j.used_bytes); };
  if (rank(other) <= rank(guessed)) return guessed;
  other.reading = flags;
  other.guessed = {guessed.verdict, guessed.used_bytes};
  return other;
}

Judgement Judge(const PlayableRun& run, const Target& target) {
  Judgement j;
  const CardRun played = PlayOn(run, target, target.capacity_bytes());
  j.retries = played.retries;
  const int64_t reserved = played.fits ? played.peak_reserved_bytes : EndlessReservedBytes(run);
  SetUsed(run, target, reserved, j);
  if (played.fits) {
    j.reasons = TightReasons(run, target, played);
    j.verdict = j.reasons.empty() ? Verdict::kFits : Verdict::kTight;
  } else {
    j.verdict = Verdict::kOom;
    j.fails_at = FailureOf(run, target, played);
  }
  if (run.is_inference) SetInference(run, target, reserved, j);
  return j;
}

std::string_view ToString(CostClass cost_class) {
  constexpr std::string_view kNames[] = {"free",      "time",        "tuning",
                                         "precision", "trains less", "money"};
  return kNames[static_cast<size_t>(cost_class)];
}

std::string_view ToString(Effect effect) {
  constexpr std::string_view kNames[] = {"enough", "some", "none"};
  return kNames[static_cast<size_t>(effect)];
}

}  // namespace onnxfit

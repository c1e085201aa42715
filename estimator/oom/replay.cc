#include "estimator/oom/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/device.h"
#include "estimator/base/index.h"
#include "estimator/base/slices.h"
#include "estimator/fit/doubts.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/predict.h"
#include "estimator/fit/remarks.h"
#include "estimator/memory/allocator.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/endless_card.h"
#include "estimator/oom/formats.h"

namespace onnxfit {
namespace {

// A card as far as PyTorch's allocator sees it: what this process can have of it.
struct SeenCard {
  int64_t bytes = 0;
  int64_t low = 0;
  int64_t high = 0;
  int64_t held_bytes = 0;       // by others and contexts
  std::string context_of = {};  // "" where the message tells what is free
  ContextBytes context = {};
};

// Sizes of one card differ by driver, and between Linux and Windows, by up to 7 % (base/cards.cc).
constexpr double kSameCard = 0.07;

bool IsSameSize(int64_t a, int64_t b) {
  return static_cast<double>(std::abs(a - b)) <= kSameCard * static_cast<double>(std::max(a, b));
}

// Of what CUDA shows of the card, with ECC on or off, what is nearest to `total`.
int64_t SizeNear(const Card& card, int64_t total) {
  const int64_t without = card.without_ecc_bytes;
  const bool is_without =
      without > 0 && std::abs(without - total) < std::abs(card.total_bytes - total);
  return is_without ? without : card.total_bytes;
}

bool HasContext(const Card& card) {
  return !card.shares_memory && card.device.compute_capability > 0;
}

// The cards that CUDA shows with about `total` bytes, else the slices; where none has that size,
// one that is limited, all cards.
std::vector<const Card*> CardsOfSize(int64_t total) {
  for (const std::span<const Card> cards : {Cards(), Slices()}) {
    std::vector<const Card*> same;
    for (const Card& card : cards) {
      if (HasContext(card) && IsSameSize(SizeNear(card, total), total)) same.push_back(&card);
    }
    if (!same.empty()) return same;
  }
  std::vector<const Card*> all;
  for (const Card& card : Cards()) {
    if (HasContext(card)) all.push_back(&card);
  }
  return all;
}

// The context of the nearest of these, in the range of all.
ContextBytes ContextOfSize(int64_t total) {
  ContextBytes context;
  int64_t nearest = -1;
  for (const Card* card : CardsOfSize(total)) {
    const ContextBytes& own = card->device.context;
    const int64_t apart = std::abs(SizeNear(*card, total) - total);
    context.low = nearest < 0 ? own.low : std::min(context.low, own.low);
    context.high = std::max(context.high, own.high);
    if (nearest < 0 || apart < nearest) context.bytes = own.bytes;
    nearest = nearest < 0 ? apart : std::min(nearest, apart);
  }
  context.basis = Basis::kAssumed;
  return context;
}

// The card that was named, if the message's may be it: a message that does not say is of it.
const Target* NamedCard(const OomFacts& facts, const EstimateRequest& request) {
  if (request.targets.empty()) return nullptr;
  const Target& target = request.targets[0];
  if (!facts.total) return &target;
  const int64_t total = facts.total->rounded();
  const Card* card = FindCard(target.name);
  const int64_t size = card == nullptr ? target.total_bytes : SizeNear(*card, total);
  return IsSameSize(total, size) ? &target : nullptr;
}

// The device that was named, or that of what was measured; null where there is neither.
const DeviceProfile* NamedDevice(const OomFacts& facts, const EstimateRequest& request) {
  if (const Target* target = NamedCard(facts, request)) return &target->device;
  const DeviceProfile& device = request.settings.device;
  return device.calibration == nullptr ? nullptr : &device;
}

SeenCard OfTarget(const Target& target) {
  const int64_t bytes = std::max<int64_t>(1, target.capacity_bytes());
  return {.bytes = bytes,
          .low = std::clamp<int64_t>(target.least_capacity_bytes(), 1, bytes),
          .high = bytes,
          .held_bytes = std::max<int64_t>(0, target.total_bytes - bytes),
          .context_of = target.device.name,
          .context = target.device.context};
}

// The card of `total`, without a context.
SeenCard WithoutContext(const Amount& total, const OomFacts& facts,
                        const EstimateRequest& request) {
  SeenCard card;
  const DeviceProfile* named = NamedDevice(facts, request);
  card.context = named != nullptr ? named->context : ContextOfSize(total.rounded());
  if (request.overhead_bytes) {
    card.context = {*request.overhead_bytes, *request.overhead_bytes, *request.overhead_bytes,
                    Basis::kAssumed};
  }
  card.context_of = named != nullptr ? named->name : "cards of " + ToString(total);
  card.bytes = total.rounded() - card.context.bytes;
  card.low = static_cast<int64_t>(total.bytes - total.error) - card.context.high;
  card.high = static_cast<int64_t>(total.bytes + total.error) - card.context.low;
  return card;
}

// What was free and what this process had reserved is what it could have had in all, unless that
// is more than there is.
SeenCard OfMessage(const OomFacts& facts, const EstimateRequest& request) {
  SeenCard card;
  if (facts.reserved && facts.free) {
    const Amount usable = *facts.reserved + *facts.free;
    const bool is_on_card = !facts.total || usable.bytes - usable.error <= facts.total->bytes;
    if (!is_on_card) return WithoutContext(*facts.total, facts, request);
    card.bytes = usable.rounded();
    if (facts.total) card.bytes = std::min(card.bytes, facts.total->rounded());
    card.low = static_cast<int64_t>(usable.bytes - usable.error);
    card.high = static_cast<int64_t>(usable.bytes + usable.error);
    return card;
  }
  return facts.total ? WithoutContext(*facts.total, facts, request) : card;
}

void Limit(const Amount& allowed, SeenCard& card) {
  const auto error = static_cast<int64_t>(allowed.error);
  card.bytes = std::min(card.bytes, allowed.rounded());
  card.low = std::min(card.low, allowed.rounded() - error);
  card.high = std::min(card.high, allowed.rounded() + error);
}

std::optional<SeenCard> CardOf(const OomFacts& facts, const EstimateRequest& request) {
  const bool is_another = !request.targets.empty() && NamedCard(facts, request) == nullptr;
  const bool is_told = facts.total || (facts.reserved && facts.free);
  if (is_another || (!is_told && !request.targets.empty())) return OfTarget(request.targets[0]);
  if (!is_told) return std::nullopt;
  SeenCard card = OfMessage(facts, request);
  if (facts.limited) Limit(*facts.allowed, card);
  if (facts.total) card.held_bytes = std::max<int64_t>(0, facts.total->rounded() - card.bytes);
  if (card.bytes <= 0) return std::nullopt;
  card.low = std::max<int64_t>(card.low, 1);
  return card;
}

// The card as a target: what others hold is the context.
Target TargetOf(const SeenCard& card, int64_t bytes, const DeviceProfile& device) {
  Target target = {.name = "the message's card", .device = device};
  target.total_bytes = bytes + card.held_bytes;
  target.device.context = {card.held_bytes, card.held_bytes, card.held_bytes, Basis::kAssumed};
  return target;
}

int64_t Largest(const Study& study, const EstimateRequest& request, const Target& target) {
  return FindMaxBatches(study, request, {&target, 1}, {.detail = BatchDetail::kBatch})[0].batch;
}

// `request` for as many steps as the card is played.
EstimateRequest StepsOf(EstimateRequest request) {
  request.settings.steps = kVerdictSteps;
  request.details = false;
  request.why.clear();
  return request;
}

// Whether a tensor of `bytes` asks for what the message says was tried.
bool AsksFor(int64_t bytes, const OomMessage& message, const AllocatorConf& conf) {
  const PrintedBytes tried = *message.Size(OomField::kTried);
  return tried.Prints(message.format->family == OomFamily::kPyTorch ? TriedBytes(bytes, conf)
                                                                    : bytes);
}

// What is allocated on a full card differs by the ends of blocks that are not split off.
bool HoldsAsMuch(int64_t allocated, const OomMessage& message) {
  constexpr int64_t kTolerance = 200;  // half a percent
  const auto& said = message.Size(OomField::kAllocated);
  return said && std::abs(allocated - said->bytes) <= said->error + said->bytes / kTolerance;
}

class CandidateList {
 public:
  CandidateList(const Trace& trace, const OomMessage& message) : trace_(trace), message_(message) {}

  void Add(const Buffer& buffer, const Instant& when, int64_t allocated) {
    const bool matches = HoldsAsMuch(allocated, message_);
    const auto [at, added] =
        index_.try_emplace({buffer.label, buffer.bytes, when.phase}, found_.size());
    if (added) {
      found_.push_back({.tensor = LabelText(trace_, buffer.label),
                        .type = {buffer.dtype, buffer.dims},
                        .bytes = buffer.bytes,
                        .when = when,
                        .times = 0});
    }
    Asked& asked = found_[at->second];
    ++asked.times;
    if (matches && !asked.matches) asked.when = when;
    asked.matches = asked.matches || matches;
  }

  std::vector<Asked> Take() {
    std::stable_partition(found_.begin(), found_.end(),
                          [](const Asked& asked) { return asked.matches; });
    return std::move(found_);
  }

 private:
  const Trace& trace_;
  const OomMessage& message_;
  std::vector<Asked> found_;
  std::map<std::tuple<int32_t, int64_t, Phase>, size_t> index_;
};

std::vector<Asked> Candidates(const Prediction& p, const OomMessage& message) {
  CandidateList candidates(p.trace, message);
  EndlessCard card(p.alloc_conf);
  Instant now;
  for (const Event& event : p.trace.events) {
    if (event.type == Event::Type::kPhase) now = {.step = event.id, .phase = event.phase};
    if (event.type == Event::Type::kAt) now.node = LabelText(p.trace, event.id);
    if (event.type == Event::Type::kFree) card.Free(event.id);
    if (event.type != Event::Type::kAlloc) continue;
    const Buffer& buffer = p.trace.buffers[Index(event.id)];
    if (AsksFor(buffer.bytes, message, p.alloc_conf)) {
      candidates.Add(buffer, now, card.stats().allocated_bytes);
    }
    card.Alloc(event.id, buffer);
  }
  return candidates.Take();
}

// The first allocation that a card refuses.
std::optional<Asked> FailureOn(const Prediction& p, const SeenCard& card) {
  const CardRun run = RunOnCard(ReadLoop(p.trace), BytesOf(p.trace), kVerdictSteps,
                                {card.bytes, card.held_bytes}, p.alloc_conf);
  if (run.fits) return std::nullopt;
  Asked asked;
  asked.bytes = run.asked_bytes;
  asked.tried_bytes = TriedBytes(run.asked_bytes, p.alloc_conf);
  const TracePlace place = PlaceOf(p.trace, run.failed_event);
  asked.when = {run.failed_step, place.phase, LabelText(p.trace, place.at)};
  return asked;
}

// Where the run fails, else where the worse reading of what the file leaves open does.
void FindFailure(const Study& study, const EstimateRequest& steps, const SharedPrediction& p,
                 const SeenCard& card, OomReplay& replay) {
  const std::vector<Doubt> doubts = DoubtsAt(study, steps);
  replay.may_have_lost_dropouts = std::ranges::find(doubts, Doubt::kDropout) != doubts.end();
  replay.fails_at = FailureOn(*p, card);
  if (replay.fails_at) return;
  const std::optional<ReadRun> worse = PredictWorse(study, steps, doubts, p);
  if (!worse || worse->prediction == p) return;
  replay.fails_at = FailureOn(*worse->prediction, card);
  if (replay.fails_at) replay.reading = worse->reading.flags;
}

// `failed` is a batch that the log shows failing on this card.
void KeepBelow(int64_t failed, LargestBatch& largest) {
  if (largest.batch >= failed) {
    largest.by_file = largest.batch;
    largest.batch = failed - 1;
  }
  if (largest.at_most >= failed) largest.at_most = failed - 1;
  if (largest.at_most == largest.batch) largest.at_most.reset();
}

}  // namespace

OomReplay ReplayOom(const Study& study, const EstimateRequest& request, const OomExplanation& oom) {
  const EstimateRequest steps = StepsOf(request);
  const SharedPrediction p = study.Predicted(steps);
  OomReplay replay = {.model = study.file().path,
                      .batch = p->shapes().batch,
                      .asks = oom.facts.tried.has_value(),
                      .warnings = p->warnings};
  Append(replay.warnings, request.warnings);
  if (replay.asks) replay.candidates = Candidates(*p, oom.message);
  const auto card = CardOf(oom.facts, request);
  if (!card) return replay;
  replay.card_bytes = card->bytes;
  replay.context_of = card->context_of;
  replay.context = card->context;
  if (!request.targets.empty()) {
    replay.card_name = request.targets[0].device.name;
    replay.is_another = NamedCard(oom.facts, request) == nullptr;
  }
  FindFailure(study, steps, p, *card, replay);
  const auto largest_on = [&](int64_t bytes) {
    return Largest(study, request, TargetOf(*card, bytes, request.settings.device));
  };
  LargestBatch largest = {.batch = largest_on(card->low)};
  const int64_t at_most = card->high > card->low ? largest_on(card->high) : largest.batch;
  if (at_most > largest.batch) largest.at_most = at_most;
  const bool is_told = request.binding.batch.has_value();
  if (is_told && !replay.is_another) KeepBelow(replay.batch, largest);
  replay.largest = largest;
  return replay;
}

}  // namespace onnxfit

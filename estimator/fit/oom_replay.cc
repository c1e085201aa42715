#include "estimator/fit/oom_replay.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "estimator/base/bytes.h"
#include "estimator/base/device.h"
#include "estimator/base/index.h"
#include "estimator/fit/max_batch.h"
#include "estimator/fit/oom_formats.h"
#include "estimator/fit/predict.h"
#include "estimator/memory/card_run.h"
#include "estimator/memory/endless_card.h"
#include "estimator/memory/segments.h"

namespace onnxfit {
namespace {

// A card as far as PyTorch's allocator sees it.
struct SeenCard {
  int64_t bytes = 0;
  int64_t error = 0;
  int64_t held_bytes = 0;  // by others and contexts
  bool assumes_context = false;
};

// What was free and what this process had reserved is what it could have had in all.
std::optional<SeenCard> CardOf(const OomFacts& facts, const EstimateRequest& request) {
  SeenCard card;
  if (facts.reserved && facts.free) {
    const Amount usable = *facts.reserved + *facts.free;
    card = {usable.rounded(), static_cast<int64_t>(usable.error)};
  } else if (facts.total) {
    const int64_t context = ContextBytesOf(request);
    card = {facts.total->rounded() - context, static_cast<int64_t>(facts.total->error)};
    card.assumes_context = true;
  } else {
    return std::nullopt;
  }
  if (facts.limited) {
    card.bytes = std::min(card.bytes, facts.allowed->rounded());
    card.error = static_cast<int64_t>(facts.allowed->error);
  }
  if (facts.total) card.held_bytes = std::max<int64_t>(0, facts.total->rounded() - card.bytes);
  if (card.bytes <= card.error) return std::nullopt;
  return card;
}

// The card as a target: what others hold is the context.
Target TargetOf(const SeenCard& card, int64_t bytes, const DeviceProfile& device) {
  Target target = {.name = "the message's card", .device = device};
  target.total_bytes = bytes + card.held_bytes;
  target.device.context = {card.held_bytes, card.held_bytes, card.held_bytes, Basis::kAssumed};
  return target;
}

int64_t Largest(const Graph& file, const EstimateRequest& request, const Target& target) {
  return FindMaxBatches(file, request, {&target, 1}, {.is_brief = true})[0].batch;
}

// The run of `request` for as many steps as the card is played.
Prediction PredictSteps(const Graph& file, EstimateRequest request) {
  request.settings.steps = kVerdictSteps;
  request.details = false;
  request.why.clear();
  return Predict(file, request);
}

// Whether a tensor of `bytes` asks for what the message says was tried.
bool AsksFor(int64_t bytes, const OomMessage& message, const AllocatorConf& conf) {
  const PrintedBytes tried = *message.Size(OomField::kTried);
  if (message.format->family == OomFamily::kPyTorch) {
    bytes = SegmentBytes(RoundUp(std::max<int64_t>(bytes, 1), 512), conf);
  }
  return bytes >= tried.bytes - tried.error && bytes <= tried.bytes + tried.error;
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
    card.Alloc(event.id, buffer.bytes);
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
  const TracePlace place = PlaceOf(p.trace, run.failed_event);
  asked.when = {run.failed_step, place.phase, LabelText(p.trace, place.at)};
  return asked;
}

}  // namespace

OomReplay ReplayOom(const Graph& file, const EstimateRequest& request, const OomExplanation& oom) {
  const Prediction p = PredictSteps(file, request);
  OomReplay replay = {.model = file.path, .batch = p.shapes.batch, .warnings = p.warnings};
  if (oom.facts.tried) replay.candidates = Candidates(p, oom.message);
  const auto card = CardOf(oom.facts, request);
  if (!card) return replay;
  replay.card_bytes = card->bytes;
  if (card->assumes_context) replay.context_of = request.settings.device.name;
  replay.fails_at = FailureOn(p, *card);
  const auto largest_on = [&](int64_t bytes) {
    return Largest(file, request, TargetOf(*card, bytes, request.settings.device));
  };
  LargestBatch largest = {.batch = largest_on(card->bytes - card->error)};
  const int64_t at_most = largest_on(card->bytes + card->error);
  if (at_most > largest.batch) largest.at_most = at_most;
  replay.largest = largest;
  return replay;
}

}  // namespace onnxfit

#include "estimator/advise/larger_cards.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "estimator/advise/trials.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/slices.h"
#include "estimator/fit/batch_runs.h"
#include "estimator/fit/worlds.h"
#include "estimator/memory/loop.h"

namespace onnxfit {
namespace {

constexpr std::string_view kNotForSlots[] = {"laptop", "jetson", "edge"};

bool IsForSlots(const Card& card) {
  return !card.shares_memory && std::find(std::begin(kNotForSlots), std::end(kNotForSlots),
                                          card.family) == std::end(kNotForSlots);
}

bool RunsIt(const Card& card, const TrainingSettings& settings) {
  const bool wants_bf16 = ComputeType(settings.precision) == DType::kBFloat16;
  return WhyUnsupported(settings.framework, card.device).empty() &&
         (!wants_bf16 || card.device.compute_capability >= 80);
}

// By memory, smallest first; of equals as in the table.
std::vector<const Card*> CardsFrom(int64_t least_bytes, const TrainingSettings& settings) {
  std::vector<const Card*> cards;
  for (const Card& card : Cards()) {
    const bool is_large = card.total_bytes >= least_bytes;
    if (is_large && IsForSlots(card) && RunsIt(card, settings)) cards.push_back(&card);
  }
  std::stable_sort(cards.begin(), cards.end(),
                   [](const Card* a, const Card* b) { return a->total_bytes < b->total_bytes; });
  return cards;
}

// For who asked about a slice: larger slices of its card, then the whole card.
std::vector<const Card*> LargerParts(const Target& asked, int64_t least_bytes) {
  const Card* slice = FindCard(asked.name);
  if (slice == nullptr || slice->slice_of.empty()) return {};
  std::vector<const Card*> parts = SlicesOf(slice->slice_of);
  parts.push_back(FindCard(slice->slice_of));
  std::erase_if(parts, [&](const Card* part) { return part->total_bytes < least_bytes; });
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Card* a, const Card* b) { return a->total_bytes < b->total_bytes; });
  return parts;
}

// What other programs hold of the asked card, they hold of this one.
Target TargetOf(const Card& card, const Target& asked) {
  TargetRequest request = {.card = &card};
  for (const Share& share : asked.shares) {
    if (share.low == share.high) request.reserved_for_others += share.bytes;  // not guessed
  }
  return MakeTarget(request);
}

std::function<void(EstimateRequest&)> On(const DeviceProfile& device) {
  return [&device](EstimateRequest& request) { request.settings.device = device; };
}

// --- Many cards ---------------------------------------------------------------------------

// At one event: what is shared among cards, and what each has.
struct Held {
  int64_t shared_bytes = 0;
  int64_t own_bytes = 0;
};

bool IsState(Kind kind) {
  return kind == Kind::kParameter || kind == Kind::kGradient || kind == Kind::kOptimizerState;
}

// The sums of a run after each event.
class HeldReader {
 public:
  explicit HeldReader(const PlayableRun& run) : run_(run), is_shared_(run.bytes.size()) {}

  std::vector<Held> Read() {
    std::vector<Held> all;
    for (const Event& event : run_.trace->events) {
      Take(event);
      if (event.type == Event::Type::kAlloc || event.type == Event::Type::kKind) {
        all.push_back(now_);
      }
    }
    return all;
  }

 private:
  void Take(const Event& event) {
    switch (event.type) {
      case Event::Type::kPhase:
        phase_ = event.phase;
        break;
      case Event::Type::kAlloc:
        Share(event.id, IsShared(event.kind));
        Add(event.id, 1);
        break;
      case Event::Type::kKind:
        Add(event.id, -1);
        Share(event.id, IsShared(event.kind));
        Add(event.id, 1);
        break;
      case Event::Type::kFree:
        Add(event.id, -1);
        break;
      case Event::Type::kAt:
        break;
    }
  }

  // An optimizer's temporaries are of the parameters that its card has.
  bool IsShared(Kind kind) const {
    return IsState(kind) || (kind == Kind::kTemporary && phase_ == Phase::kOptimizer);
  }

  void Share(BufferId id, bool shared) { is_shared_[Index(id)] = shared; }

  void Add(BufferId id, int64_t sign) {
    const int64_t bytes = sign * run_.bytes[Index(id)];
    (is_shared_[Index(id)] ? now_.shared_bytes : now_.own_bytes) += bytes;
  }

  const PlayableRun& run_;
  std::vector<bool> is_shared_;
  Phase phase_ = Phase::kSetup;
  Held now_;
};

// What each card needs, at its peak, where `count` share.
int64_t EachNeeds(const std::vector<Held>& all, int64_t count) {
  int64_t most = 0;
  for (const Held& held : all) {
    most = std::max(most, held.own_bytes + (held.shared_bytes + count - 1) / count);
  }
  return most;
}

// The fewest cards of `capacity_bytes`; nullopt where no number is enough.
std::optional<int64_t> CountOf(const std::vector<Held>& all, int64_t capacity_bytes) {
  constexpr int64_t kMostCards = int64_t{1} << 20;
  int64_t fails = 0;
  int64_t holds = 1;
  while (EachNeeds(all, holds) > capacity_bytes) {
    fails = holds;
    holds *= 2;
    if (holds > kMostCards) return std::nullopt;
  }
  while (holds - fails > 1) {
    const int64_t middle = fails + (holds - fails) / 2;
    (EachNeeds(all, middle) > capacity_bytes ? fails : holds) = middle;
  }
  return holds;
}

// A layer's parameters are put together where it runs: at least those of the largest tensor.
int64_t LargestParameterBytes(const Program& program) {
  int64_t largest = 0;
  for (const NameId id : program.parameters) {
    largest = std::max(largest, BytesOf(program.values[Index(id)].type));
  }
  return largest;
}

std::string ManyText(const std::vector<Held>& all, const Target& largest, const Target& asked,
                     int64_t gathered_bytes) {
  const auto count = CountOf(all, largest.capacity_bytes() - gathered_bytes);
  if (!count) {
    return fmt::format(
        "no single card holds this, nor do many that share it: one sample's activations are more "
        "than {} has",
        largest.name);
  }
  std::string text = fmt::format("no single card holds this: {} of {}", *count, largest.name);
  const auto of_asked = CountOf(all, asked.capacity_bytes() - gathered_bytes);
  const bool is_other = asked.name != largest.name;
  if (of_asked && is_other) text += fmt::format(", or {} of {},", *of_asked, asked.name);
  return text + " would";
}

}  // namespace

namespace {

constexpr int64_t kMostAdvisedCards = 64;

void ShardOver(int64_t world, RankSettings& ranks) {
  ranks.strategy = Strategy::kFsdp;
  ranks.world = world;
}

Change ShardedOver(int64_t world, RankSettings ranks) {
  ShardOver(world, ranks);
  return {
      ChangedPart::kRanks,
      CostClass::kMoney,
      fmt::format("{} such cards that share the model", CountRanks(ranks)),
      fmt::format("--strategy fsdp --world {}", world),
      "FSDP2; each takes this batch; half as much again is sent as with DDP (Rajbhandari et al. "
      "2020, arXiv:1910.02054, section 7)",
      [world](EstimateRequest& r) { ShardOver(world, r.settings.ranks); }};
}

}  // namespace

std::optional<LargerCard> FindLargerCard(const AdviceCase& c, const Judgement& before,
                                         int64_t least_bytes) {
  // Kernels change scratch and workspaces, not tensors: what is far too large stays so.
  const int64_t surely_too_small = PeakBytes(c.asked.playable()) / 10 * 9;
  std::optional<ReadingLoops> loops;
  DeviceProfile device;
  std::vector<const Card*> cards = LargerParts(c.target, least_bytes);
  const std::vector<const Card*> others = CardsFrom(least_bytes, c.request.settings);
  cards.insert(cards.end(), others.begin(), others.end());
  for (const Card* card : cards) {
    Target target = TargetOf(*card, c.target);
    if (target.capacity_bytes() < surely_too_small) continue;
    if (!loops || !SameKernels(device, card->device)) {
      loops.emplace(c.programs, On(card->device));
    }
    device = card->device;
    if (PeakBytes(loops->of_worse().At(c.batch())) > target.capacity_bytes()) continue;
    Judgement judgement = loops->JudgeOneAt(c.batch(), target);
    if (IsEnough(judgement, before)) return LargerCard{std::move(target), std::move(judgement)};
  }
  return std::nullopt;
}

Advice AdviceOf(const LargerCard& card) {
  return {.change = "a larger card",
          .flags = "--gpu " + card.target.name,
          .cost = fmt::format("{}, {} of memory", card.target.device.name,
                              FormatBytes(card.target.total_bytes)),
          .cost_class = CostClass::kMoney,
          .judgement = card.judgement};
}

std::optional<Trial> FindShardedRun(const AdviceCase& c, const Judgement& before) {
  const TrainingSettings& settings = c.request.settings;
  const bool is_alone = settings.ranks.strategy == Strategy::kNone && !settings.channels_last &&
                        !IsWholeStep(c.asked.prediction->program);
  if (!c.is_training() || !is_alone || settings.compile != Compiling::kNone) return std::nullopt;
  const auto over = [&](int64_t world) {
    const Change change = ShardedOver(world, settings.ranks);
    std::optional<Trial> trial = Try(c, before, {&change, 1});
    if (trial && !IsEnough(trial->judgement, before)) trial.reset();
    return trial;
  };
  std::optional<Trial> fewest = over(kMostAdvisedCards);
  for (int64_t world = 2; fewest && world < kMostAdvisedCards; world *= 2) {
    if (std::optional<Trial> fewer = over(world)) return fewer;
  }
  return fewest;
}

std::optional<Advice> SeveralCards(const AdviceCase& c) {
  const std::vector<const Card*> cards = CardsFrom(0, c.request.settings);
  if (cards.empty()) return std::nullopt;
  const Target largest = TargetOf(*cards.back(), c.target);
  ReadingLoops loops(c.programs, On(largest.device));
  const PlayableRun run = loops.of_worse().At(1);
  if (RunsOn(run, largest)) return std::nullopt;
  const std::vector<Held> all = HeldReader(run).Read();
  const int64_t gathered = LargestParameterBytes(c.programs.of_worse().At(1));
  const std::string_view states =
      c.is_training() ? "parameters, gradients and optimizer state" : "parameters";
  return Advice{
      .change = "several cards",
      .cost = fmt::format("assumed: {} shared evenly (ZeRO-3, FSDP), one sample on each", states),
      .cost_class = CostClass::kMoney,
      .effect = Effect::kNone,
      .why = ManyText(all, largest, c.target, gathered)};
}

}  // namespace onnxfit

#include "cli/runtime_play.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "estimator/memory/arena_sessions.h"

namespace onnxfit {
namespace {

constexpr size_t kOrders = 200;  // of weights that are played: seconds of no one's time
constexpr uint64_t kSeed = 1;
constexpr std::string_view kStrategy = "arena_extend_strategy";
constexpr std::string_view kLimit = "gpu_mem_limit";

// --- Playing it ---------------------------------------------------------------------------------

ArenaConfig ConfigOf(const RuntimeOptions& options) {
  ArenaConfig config;
  const auto strategy = options.provider.find(std::string(kStrategy));
  const bool is_same = strategy != options.provider.end() &&
                       (strategy->second == "kSameAsRequested" || strategy->second == "1");
  if (is_same) config.extend_strategy = ExtendStrategy::kSameAsRequested;
  const auto limit = options.provider.find(std::string(kLimit));
  if (limit != options.provider.end()) config.memory_limit_bytes = std::stoll(limit->second);
  return config;
}

// By run.  A request of an earlier run has been given back by then: it was an output.
std::vector<ArenaRun> RequestsOf(const ToldSessions& told) {
  auto before = static_cast<int64_t>(told.weights.size());  // that are given back, of all
  std::vector<ArenaRun> runs;
  for (const std::vector<int64_t>& asked : told.runs) {
    std::vector<int32_t> places;  // of those that took memory
    ArenaRun& run = runs.emplace_back();
    for (const int64_t request : asked) {
      if (request >= 0) {
        places.push_back(static_cast<int32_t>(run.size()));
        run.push_back({.bytes = request});
      } else if (const int64_t taken = -1 - request - before; taken >= 0) {
        run.push_back({.frees = places.at(static_cast<size_t>(taken))});
      }
    }
    before += static_cast<int64_t>(places.size());
  }
  return runs;
}

// Of what a session asks for, in so many orders of its weights.
class Player {
 public:
  // The orders that are played do not follow from the one in which weights were told.
  explicit Player(const ToldSessions& told) : weights_(told.weights), runs_(RequestsOf(told)) {
    std::ranges::sort(weights_);
  }

  // Each run asks as the first of its shape does, which knows no pattern yet.
  void ForgetPattern() {
    for (size_t run = 0; run < runs_.size(); ++run) runs_[run] = runs_[run - run % kRunsOfShape];
  }

  int64_t weight_bytes() const {
    int64_t bytes = 0;
    for (const int64_t weight : weights_) bytes += weight;
    return bytes;
  }

  // At once, weights included.
  int64_t most_bytes() const {
    int64_t most = weight_bytes();
    for (const ArenaRun& run : runs_) {
      int64_t live = weight_bytes();
      for (const ArenaRequest& request : run) {
        const bool frees = request.frees >= 0;
        live += frees ? -run[static_cast<size_t>(request.frees)].bytes : request.bytes;
        most = std::max(most, live);
      }
    }
    return most;
  }

  std::vector<OrderBytes> Orders(const ArenaConfig& config, bool weights_are_outside) const {
    const auto play = weights_are_outside ? PlayOrdersOutside : PlayOrders;
    return play(weights_, runs_, config, kOrders, kSeed);
  }

 private:
  std::vector<int64_t> weights_;
  std::vector<ArenaRun> runs_;
};

// --- What it comes to ---------------------------------------------------------------------------

// What the card has beside the context and the arena's pages, at the most of the sessions.
int64_t MostBeside(const ToldSessions& told) {
  int64_t most = 0;
  for (const RuntimeSession& session : told.sessions) {
    if (session.used_bytes.empty()) continue;
    most = std::max(most, session.used_bytes.back() - session.page_bytes);
  }
  return most;
}

ByteRange RangeOf(const std::vector<OrderBytes>& orders, int64_t OrderBytes::*bytes,
                  int64_t beside = 0) {
  const auto [low, high] = std::ranges::minmax(orders, {}, bytes);
  return {low.*bytes + beside, high.*bytes + beside};
}

// The most of each session that came to its end.
std::optional<ByteRange> RangeOfSessions(const std::vector<RuntimeSession>& sessions) {
  std::optional<ByteRange> range;
  for (const RuntimeSession& session : sessions) {
    if (!session.error.empty()) continue;
    const int64_t most = *std::ranges::max_element(session.used_bytes);
    if (!range) range = {most, most};
    range = {std::min(range->low, most), std::max(range->high, most)};
  }
  return range;
}

struct SettingRow {
  std::string_view flag;
  bool is_same_as_requested;
  bool weights_are_outside;
  bool has_pattern;
};
constexpr SettingRow kSettings[] = {
    {"--session session.use_device_allocator_for_initializers=1", false, true, true},
    {"--provider-option arena_extend_strategy=kSameAsRequested", true, false, true},
    {"--session enable_mem_pattern=0", false, false, false},
};

// Each alone, where nobody has set any.
std::vector<PlayedSetting> PlaySettings(const Player& player, const RuntimeOptions& options,
                                        int64_t beside) {
  std::vector<PlayedSetting> played;
  if (!options.session.empty() || !options.provider.empty()) return played;
  for (const SettingRow& row : kSettings) {
    ArenaConfig config;
    if (row.is_same_as_requested) config.extend_strategy = ExtendStrategy::kSameAsRequested;
    Player set = player;
    if (!row.has_pattern) set.ForgetPattern();
    played.push_back({std::string(row.flag), RangeOf(set.Orders(config, row.weights_are_outside),
                                                     &OrderBytes::page_bytes, beside)});
  }
  return played;
}

// Whether the sessions had their weights outside of the arena's regions, each on its own or all as
// one (use_device_allocator_for_initializers; disable_prepacking with a memory pattern).
bool HasWeightsOutside(const ToldSessions& told, int64_t weight_bytes) {
  return std::ranges::any_of(told.sessions, [&](const RuntimeSession& session) {
    return session.reserved_bytes >= weight_bytes;
  });
}

// What the card leaves to the arena.
int64_t RoomOf(const RuntimeRun& run, int64_t beside) {
  return run.target.judgement.usable_bytes - run.context_bytes - beside;
}

// How many orders find no room on the card; none where it has all that the largest takes.
int64_t FailedOrders(const Player& player, ArenaConfig config, bool weights_are_outside,
                     int64_t most_bytes, int64_t room_bytes) {
  if (most_bytes <= room_bytes) return 0;
  config.capacity_bytes = std::max<int64_t>(room_bytes, 1);
  return std::ranges::count(player.Orders(config, weights_are_outside), false, &OrderBytes::fits);
}

}  // namespace

void AddPlayed(const ToldSessions& told, const RuntimeOptions& options, RuntimeRun& run) {
  const std::optional<ByteRange> seen = RangeOfSessions(run.sessions);
  run.bytes = seen.value_or(ByteRange{});
  if (told.weights.empty() || told.runs.empty()) {
    run.open.push_back("other orders of its weights could not be played" +
                       (told.untraced.empty() ? "" : ": " + told.untraced));
    return;
  }
  const Player player(told);
  ArenaConfig config = ConfigOf(options);
  const int64_t beside = MostBeside(told);
  const int64_t room = RoomOf(run, beside);
  const bool is_outside = HasWeightsOutside(told, player.weight_bytes());
  const std::vector<OrderBytes> orders = player.Orders(config, is_outside);
  const ByteRange played = RangeOf(orders, &OrderBytes::page_bytes, beside);
  run.weight_bytes = player.weight_bytes();
  run.most_bytes = player.most_bytes();
  run.orders = static_cast<int64_t>(orders.size());
  run.failed_orders = FailedOrders(player, config, is_outside, played.high - beside, room);
  run.arena = RangeOf(orders, &OrderBytes::arena_bytes);
  run.bytes = played;
  if (seen) run.bytes = {std::min(seen->low, played.low), std::max(seen->high, played.high)};
  run.settings = PlaySettings(player, options, beside);
}

std::string FirstError(const std::vector<RuntimeSession>& sessions) {
  for (const RuntimeSession& session : sessions) {
    if (!session.error.empty()) return session.error;
  }
  return "";
}

// The card's own verdict on the sessions that ran, and what other orders of the weights would do.
void JudgeSessions(RuntimeRun& run) {
  Judgement& judgement = run.target.judgement;
  const ContextBytes& context = run.target.target.device.context;
  const int64_t endless = std::max(judgement.used_bytes, run.bytes.high + run.context_bytes);
  judgement.used_bytes = std::min(endless, judgement.usable_bytes);
  judgement.low_bytes = run.bytes.low + context.low;
  judgement.high_bytes = run.bytes.high + context.high;
  const std::string error = FirstError(run.sessions);
  if (!error.empty() || run.failed_orders > 0) {
    judgement.verdict = Verdict::kOom;
    judgement.used_bytes = endless;
    judgement.reasons.assign(
        1, error.empty() ? fmt::format("{} of {} orders of the weights find no room, and which one "
                                       "a session has is chance",
                                       run.failed_orders, run.orders)
                         : error);
  } else if (judgement.high_bytes > judgement.usable_bytes) {
    judgement.verdict = Verdict::kTight;
    judgement.reasons.push_back(
        "in some order of its weights the arena gets less than it asks for, and goes on");
  }
}

}  // namespace onnxfit

#include "estimator/memory/arena_sessions.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>
#include <utility>

#include "estimator/base/device_pages.h"
#include "estimator/base/index.h"
#include "estimator/base/split_mix.h"

namespace onnxfit {
namespace {

// Fisher and Yates; std::shuffle differs between libraries.
void ShuffleWeights(std::vector<int64_t>& weights, SplitMix64& random) {
  for (size_t left = weights.size(); left > 1; --left) {
    std::swap(weights[left - 1], weights[random.Below(left)]);
  }
}

class Session {
 public:
  explicit Session(const ArenaConfig& config) : arena_(config) {}

  // The two return false where the arena refuses.
  bool TakeWeights(const std::vector<int64_t>& weights) {
    return std::ranges::all_of(weights, [&](int64_t bytes) { return Take(bytes).has_value(); });
  }

  bool Run(const ArenaRun& run) {
    FreeOutputs();
    arena_.BeginRun();
    const bool fits =
        std::ranges::all_of(run, [&](const ArenaRequest& request) { return Step(request); });
    arena_.EndRun();
    return fits;
  }

  void Shrink() { arena_.Shrink(); }

  int64_t PageBytes() const {
    std::vector<int64_t> regions;
    for (const ArenaExtension& extension : arena_.extensions()) regions.push_back(extension.bytes);
    return PageBytesOf(regions);
  }

  // What there is now; the next peak is counted from here.
  ArenaBytes Tell() {
    const int64_t peak_bytes = std::exchange(peak_bytes_, arena_.in_use_bytes());
    return {.total_bytes = arena_.total_bytes(),
            .in_use_bytes = arena_.in_use_bytes(),
            .peak_bytes = peak_bytes};
  }

 private:
  std::optional<ArenaHandle> Take(int64_t bytes) {
    const std::optional<ArenaHandle> handle = arena_.Allocate(bytes);
    peak_bytes_ = std::max(peak_bytes_, arena_.in_use_bytes());
    return handle;
  }

  bool Step(const ArenaRequest& request) {
    const bool frees = request.frees >= 0;
    if (frees) FreeOnce(taken_[Index(request.frees)]);
    taken_.push_back(frees ? std::nullopt : Take(request.bytes));
    return frees || taken_.back().has_value();
  }

  void FreeOnce(std::optional<ArenaHandle>& handle) {
    assert(handle.has_value());
    arena_.Free(*handle);
    handle.reset();
  }

  void FreeOutputs() {
    for (std::optional<ArenaHandle>& handle : taken_) {
      if (handle.has_value()) FreeOnce(handle);
    }
    taken_.clear();
  }

  BfcArena arena_;
  std::vector<std::optional<ArenaHandle>> taken_;  // by request of the last run, until freed
  int64_t peak_bytes_ = 0;
};

}  // namespace

SessionBytes PlaySession(const std::vector<int64_t>& weights, const std::vector<ArenaRun>& runs,
                         const ArenaConfig& config, bool shrinks) {
  Session session(config);
  SessionBytes bytes;
  bytes.fits = session.TakeWeights(weights);
  bytes.weights = session.Tell();
  for (const ArenaRun& run : runs) {
    if (!bytes.fits) break;
    bytes.fits = session.Run(run);
    if (shrinks) session.Shrink();
    bytes.runs.push_back(session.Tell());
  }
  bytes.page_bytes = session.PageBytes();
  return bytes;
}

std::vector<OrderBytes> PlayOrders(std::vector<int64_t> weights, const std::vector<ArenaRun>& runs,
                                   const ArenaConfig& config, int32_t count, uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<OrderBytes> orders;
  for (int32_t order = 0; order < count; ++order) {
    ShuffleWeights(weights, random);
    const SessionBytes session = PlaySession(weights, runs, config);
    orders.push_back({session.total_bytes(), session.page_bytes, session.fits});
  }
  return orders;
}

std::vector<OrderBytes> PlayOrdersOutside(std::vector<int64_t> weights,
                                          const std::vector<ArenaRun>& runs,
                                          const ArenaConfig& config, int32_t count, uint64_t seed) {
  const SessionBytes session = PlaySession({}, runs, config);
  const int64_t weight_bytes = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  SplitMix64 random(seed);
  std::vector<OrderBytes> orders;
  for (int32_t order = 0; order < count; ++order) {
    ShuffleWeights(weights, random);
    orders.push_back({session.total_bytes() + weight_bytes,
                      session.page_bytes + PageBytesOf(weights), session.fits});
  }
  return orders;
}

}  // namespace onnxfit

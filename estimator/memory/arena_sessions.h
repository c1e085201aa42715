// Sessions of ONNX Runtime on one arena: the weights of a model, then runs.
//
// The session takes its weights in the order of a hash map, which is another one whenever a
// process starts.  So the total of kNextPowerOfTwo is one of many: PlayOrders plays some.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/memory/bfc_arena.h"

namespace onnxfit {

// One step of a run.
struct ArenaRequest {
  int64_t bytes = 0;
  // Index of an earlier request of this run, which is freed; -1: this allocates.
  int32_t frees = -1;

  bool operator==(const ArenaRequest&) const = default;
};

using ArenaRun = std::vector<ArenaRequest>;

// What the arena has behind the weights, or behind a run.
struct ArenaBytes {
  int64_t total_bytes = 0;   // held of the device
  int64_t in_use_bytes = 0;  // of it in chunks that are taken
  int64_t peak_bytes = 0;    // the most in use since what is told before this

  bool operator==(const ArenaBytes&) const = default;
};

struct SessionBytes {
  ArenaBytes weights;
  std::vector<ArenaBytes> runs;
  int64_t page_bytes = 0;  // of a card, for all regions that there were (base/device_pages.h)
  bool fits = true;        // else a request was refused: the figures end with its phase

  // Behind all of it.
  int64_t total_bytes() const {
    return runs.empty() ? weights.total_bytes : runs.back().total_bytes;
  }

  bool operator==(const SessionBytes&) const = default;
};

// Plays a session whose weights are taken in this order, one by one, and stay.  What a run does
// not free, such as outputs on the device, its caller frees before the next run.  `shrinks`: the
// arena does, behind each run.  O(requests * log chunks).
SessionBytes PlaySession(const std::vector<int64_t>& weights, const std::vector<ArenaRun>& runs,
                         const ArenaConfig& config, bool shrinks = false);

// What one order of the weights comes to, behind the last run.
struct OrderBytes {
  int64_t arena_bytes = 0;  // held of the device
  int64_t page_bytes = 0;   // what that takes of a card (base/device_pages.h)
  bool fits = true;  // else a request was refused, and these are behind the last that was not

  bool operator==(const OrderBytes&) const = default;
};

// Sessions with `count` random orders of the weights, each as likely.  The same for a seed
// everywhere.  As PlaySession for each.
std::vector<OrderBytes> PlayOrders(std::vector<int64_t> weights, const std::vector<ArenaRun>& runs,
                                   const ArenaConfig& config, int32_t count, uint64_t seed);

// The same with weights that lie outside of the arena, each on its own: small ones share pages, so
// that the order still counts.  O(requests * log chunks + weights * count).
std::vector<OrderBytes> PlayOrdersOutside(std::vector<int64_t> weights,
                                          const std::vector<ArenaRun>& runs,
                                          const ArenaConfig& config, int32_t count, uint64_t seed);

}  // namespace onnxfit

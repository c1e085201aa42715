#include "estimator/memory/arena_sessions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "estimator/base/bytes.h"

namespace onnxfit::arena_sessions_test {
namespace {

constexpr ArenaRequest Frees(int32_t index) { return {.frees = index}; }

TEST_CASE("a session is told phase by phase") {
  const ArenaRun run = {{4 * kMiB}, {1 * kMiB}, Frees(0), Frees(1), {3 * kMiB}};
  const ArenaConfig config = {.extend_strategy = ExtendStrategy::kSameAsRequested};
  const SessionBytes bytes = PlaySession({1 * kMiB, 1000}, {run, run, {{1000}}}, config);
  const int64_t weights = 1 * kMiB + 1024;
  CHECK(bytes.weights == ArenaBytes{weights, weights, weights});
  REQUIRE(bytes.runs.size() == 3);
  // 3 MiB lie in the chunk of 4, which the caller has until the next run.
  CHECK(bytes.runs[0] == ArenaBytes{weights + 5 * kMiB, weights + 4 * kMiB, weights + 5 * kMiB});
  CHECK(bytes.runs[1] == bytes.runs[0]);
  CHECK(bytes.runs[2] == ArenaBytes{weights + 5 * kMiB, weights + 1024, weights + 4 * kMiB});
  CHECK(bytes.fits);
  CHECK(bytes.total_bytes() == weights + 5 * kMiB);
}

TEST_CASE("a session ends where the arena refuses") {
  const ArenaRun run = {{4 * kMiB}, {4 * kMiB}, {1 * kMiB}};
  const ArenaConfig config = {.extend_strategy = ExtendStrategy::kSameAsRequested,
                              .capacity_bytes = 7 * kMiB};
  const SessionBytes bytes = PlaySession({1 * kMiB}, {run, run}, config);
  CHECK(!bytes.fits);
  REQUIRE(bytes.runs.size() == 1);
  CHECK(bytes.runs[0] == ArenaBytes{5 * kMiB, 5 * kMiB, 5 * kMiB});
  CHECK(!PlaySession({8 * kMiB}, {run}, config).fits);
  CHECK(PlaySession({8 * kMiB}, {run}, config).runs.empty());
}

// Pages have 2 MiB, and a block that finds no room in the last one begins another: 768 + 768 + 512
// and 768 + 1024 KiB fill two, 1024 + 512, 768 + 768 and 768 three.
TEST_CASE("weights outside of the arena take pages by their order") {
  const std::vector<int64_t> weights = {768 * kKiB, 768 * kKiB, 768 * kKiB, 1 * kMiB, 512 * kKiB};
  std::vector<int64_t> pages;
  for (const OrderBytes& order : PlayOrdersOutside(weights, {{{4 * kMiB}}}, {}, 50, 1)) {
    CHECK(order.arena_bytes == 4 * kMiB + 3840 * kKiB);
    pages.push_back(order.page_bytes);
  }
  const auto [low, high] = std::ranges::minmax(pages);
  CHECK(low == 8 * kMiB);
  CHECK(high == 10 * kMiB);
}

// A model in onnxruntime-gpu 1.31.1: its statistics behind three runs, with and without
// memory.enable_memory_arena_shrinkage, without a memory pattern.
TEST_CASE("runs repeat, and an arena that shrinks grows again") {
  const ArenaRun run = {{4},           {9 * kMiB}, {4},      {9472 * kKiB}, {4},
                        {9728 * kKiB}, Frees(1),   Frees(3), Frees(5),      {23 * kMiB},
                        Frees(0),      Frees(2),   Frees(4), Frees(9)};
  for (const bool shrinks : {false, true}) {
    const SessionBytes bytes = PlaySession({8}, {run, run, run}, {}, shrinks);
    CHECK(bytes.weights == ArenaBytes{1048576, 256, 256});
    REQUIRE(bytes.runs.size() == 3);
    for (const ArenaBytes& behind : bytes.runs) {
      CHECK(behind == ArenaBytes{shrinks ? 1048576 : 135266304, 256, 43516928});
    }
  }
}

// What the session of a VGG16 asks for, from the log of onnxruntime-gpu 1.31.1.
const std::vector<int64_t> kVgg16 = {
    9437184, 1024,    2048,    16384000, 2048,   2359296,  294912,    16384,
    256,     2359296, 9437184, 9437184,  147456, 67108864, 2048,      256,
    2048,    4718592, 1024,    512,      1024,   6912,     411041792, 589824,
    9437184, 2048,    9437184, 512,      4000,   1179648,  16384,     2048};

// Sorted.
std::vector<int64_t> TotalsOfOrders(int32_t count, uint64_t seed) {
  std::vector<int64_t> totals;
  for (const OrderBytes& order : PlayOrders(kVgg16, {}, {}, count, seed)) {
    totals.push_back(order.arena_bytes);
  }
  std::ranges::sort(totals);
  return totals;
}

// The totals of twelve such sessions; nothing but the order of the weights differs.
TEST_CASE("what sessions of one model had is among the totals of random orders") {
  const std::vector<int64_t> totals = TotalsOfOrders(1000, 1);
  CHECK(totals.size() == 1000);
  for (const int64_t seen :
       {813694976, 814743552, 1207959552, 1116733440, 1116733440, 806354944, 806354944, 1077936128,
        705691648, 1207959552, 1108344832, 1209008128}) {
    CAPTURE(seen);
    CHECK(std::ranges::binary_search(totals, seen));
  }
}

TEST_CASE("regions take whole pages of a card, and small ones share them") {
  const ArenaConfig same = {.extend_strategy = ExtendStrategy::kSameAsRequested};
  CHECK(PlaySession({256, 512, 1024}, {}, same).page_bytes == 2 * kMiB);
  CHECK(PlaySession({3 * kMiB, 256}, {}, same).page_bytes == 6 * kMiB);
  CHECK(PlaySession({256}, {}, {}).page_bytes == 2 * kMiB);
}

TEST_CASE("an order that the card has no room for does not fit") {
  const std::vector<OrderBytes> orders =
      PlayOrders(kVgg16, {}, {.capacity_bytes = 700 * kMiB}, 20, 1);
  CHECK(std::ranges::any_of(orders, &OrderBytes::fits));
  CHECK(!std::ranges::all_of(orders, &OrderBytes::fits));
}

TEST_CASE("a seed gives the same orders everywhere") {
  const std::vector<int64_t> totals = {688914432, 1083179008, 1091567616, 1116733440};
  CHECK(TotalsOfOrders(4, 7) == totals);
  CHECK(TotalsOfOrders(4, 8) != totals);
}

}  // namespace
}  // namespace onnxfit::arena_sessions_test

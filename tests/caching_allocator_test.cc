#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cli/values.h"
#include "estimator/base/bytes.h"
#include "estimator/memory/allocator.h"
#include "tests/slow_allocator.h"

namespace onnxfit::caching_allocator_test {
namespace {

// One step of a script: bytes > 0 allocates the next buffer, -n frees buffer n (from 1).
struct Vector {
  const char* name;
  std::vector<int64_t> script;
  int64_t allocated;
  int64_t reserved;
};

constexpr int64_t kEndless = int64_t{1} << 60;
constexpr int64_t kBigFree = -1;  // frees the first buffer

// PyTorch's rules, worked out by hand; V1 is a real memory snapshot.
const Vector kVectors[] = {
    {"V1: a real snapshot", {40000, 40, 4000, 40}, 45568, 2 * kMiB},
    {"V1b: with a cuBLAS workspace", {40000, 40, 4000, 40, 8519680}, 8565248, 22 * kMiB},
    {"V2: a tail of 512 KiB is not split off", {23 * kMiB / 2}, 12 * kMiB, 12 * kMiB},
    {"V3: a tail of 1.5 MiB is", {21 * kMiB / 2}, 21 * kMiB / 2, 12 * kMiB},
    {"V4: 1 MiB is small", {1 * kMiB}, 1 * kMiB, 2 * kMiB},
    {"V4: one byte more is large", {1 * kMiB, 1 * kMiB + 1}, 2097664, 22 * kMiB},
    {"V5: rounds to 10 MiB, its own segment", {10 * kMiB - 511}, 10 * kMiB, 10 * kMiB},
    {"V6: takes a hole of 12 MiB whole",
     {6 * kMiB, 6 * kMiB, 6 * kMiB, 6 * kMiB, -1, -2, 11 * kMiB},
     24 * kMiB,
     40 * kMiB},
    {"V7: 99.5 of 100 MiB", {100 * kMiB, kBigFree, 199 * kMiB / 2}, 100 * kMiB, 100 * kMiB},
    {"V8: a hole that is too small",
     {100 * kMiB, kBigFree, 40 * kMiB, 61 * kMiB},
     102 * kMiB,
     162 * kMiB},
    {"nothing asked, nothing held", {0}, 0, 0},
};

AllocatorConf Conf(const std::string& text) { return ParseAllocConf({"", text}).conf; }

AllocatorStats Play(const std::vector<int64_t>& script, const AllocatorConf& conf = {}) {
  const auto source = NewCountingSource(kEndless);
  const auto allocator = NewCachingAllocator(*source, conf);
  BufferId next = 1;
  for (const int64_t step : script) {
    if (step < 0) {
      allocator->Free(static_cast<BufferId>(-step));
    } else {
      REQUIRE(allocator->Alloc(next++, step));
    }
  }
  return allocator->stats();
}

TEST_CASE("the caching allocator rounds, splits and merges as PyTorch does") {
  for (const Vector& vector : kVectors) {
    CAPTURE(vector.name);
    const AllocatorStats stats = Play(vector.script);
    CHECK(stats.allocated_bytes == vector.allocated);
    CHECK(stats.reserved_bytes == vector.reserved);
  }
}

TEST_CASE("options change what is rounded, split and taken") {
  const Vector vectors[] = {
      {"roundup_power2_divisions:4", {1200 * kKiB}, 1280 * kKiB, 20 * kMiB},
      {"roundup_power2_divisions:4", {4 * kMiB}, 4 * kMiB, 20 * kMiB},
      {"roundup_power2_divisions:4", {2000}, 2048, 2 * kMiB},  // too small for 4 steps
      {"roundup_power2_divisions:[1:1,>:2]", {1900 * kKiB, 5 * kMiB}, 8044 * kKiB, 20 * kMiB},
      {"large_segment_size_mb:64", {5 * kMiB}, 5 * kMiB, 64 * kMiB},
      {"large_segment_size_mb:64", {10 * kMiB}, 10 * kMiB, 10 * kMiB},
      // Blocks of 21 MiB and more are not for small requests, nor for much smaller ones.
      {"max_split_size_mb:21", {22 * kMiB, -1, 5 * kMiB}, 5 * kMiB, 42 * kMiB},
      {"max_split_size_mb:21", {58 * kMiB, -1, 40 * kMiB}, 58 * kMiB, 58 * kMiB},
      {"max_split_size_mb:21", {60 * kMiB, -1, 40 * kMiB}, 40 * kMiB, 100 * kMiB},
      {"max_split_size_mb:21,max_non_split_rounding_mb:21",
       {60 * kMiB, -1, 40 * kMiB},
       60 * kMiB,
       60 * kMiB},
      // One segment grows by pages of 20 MiB, and large blocks are split off to the byte.
      {"expandable_segments:True", {23 * kMiB / 2}, 23 * kMiB / 2, 20 * kMiB},
      {"expandable_segments:True", {15 * kMiB, 10 * kMiB}, 25 * kMiB, 40 * kMiB},
      {"expandable_segments:True", {15 * kMiB, 45 * kMiB}, 60 * kMiB, 60 * kMiB},
      {"expandable_segments:True", {1000, 2 * kMiB}, 1024 + 2 * kMiB, 22 * kMiB},
      {"expandable_segments:True,large_segment_size_mb:12", {13 * kMiB}, 13 * kMiB, 24 * kMiB},
      // The hole of 6 MiB is filled before the tail of 5 MiB, which can grow.
      {"expandable_segments:True",
       {6 * kMiB, 9 * kMiB, -1, 3 * kMiB, 5 * kMiB},
       17 * kMiB,
       20 * kMiB},
  };
  for (const Vector& vector : vectors) {
    CAPTURE(std::string(vector.name));
    CAPTURE(vector.script.back());
    const AllocatorStats stats = Play(vector.script, Conf(vector.name));
    CHECK(stats.allocated_bytes == vector.allocated);
    CHECK(stats.reserved_bytes == vector.reserved);
  }
}

// release_available_cached_blocks: on a full card the largest blocks that are never split go back
// until there is enough, those of that very size, too; that is no retry.
TEST_CASE("blocks of the size from which none is split go back to a full card") {
  const AllocatorConf conf = Conf("max_split_size_mb:22");
  const auto source = NewCountingSource(44 * kMiB);
  const auto allocator = NewCachingAllocator(*source, conf);
  SlowAllocator slow(44 * kMiB, conf);
  for (const BufferId buffer : {0, 1}) {
    REQUIRE(allocator->Alloc(buffer, 22 * kMiB));
    REQUIRE(slow.Alloc(buffer, 22 * kMiB));
  }
  for (const BufferId buffer : {0, 1}) allocator->Free(buffer);
  for (const BufferId buffer : {0, 1}) slow.Free(buffer);
  CHECK(allocator->Alloc(2, 40 * kMiB));
  CHECK(slow.Alloc(2, 40 * kMiB));
  CHECK(allocator->stats() == slow.stats());
  CHECK(allocator->stats().retries == 0);
}

// Each stream's pool is its own; all of them give back to a full card.
TEST_CASE("what is free on one stream is not handed out on another") {
  for (const bool expands : {false, true}) {
    const AllocatorConf conf = {.expandable_segments = expands};
    const auto source = NewCountingSource(60 * kMiB);
    const auto allocator = NewCachingAllocator(*source, conf);
    REQUIRE(allocator->AllocOn(1, 0, 22 * kMiB));
    allocator->Free(0);
    REQUIRE(allocator->AllocOn(0, 1, 20 * kMiB));
    CHECK(allocator->stats().reserved_bytes >= 42 * kMiB);
    allocator->Free(1);
    REQUIRE(allocator->AllocOn(1, 2, 20 * kMiB));
    CHECK(allocator->stats().retries == 0);
    CHECK(allocator->AllocOn(2, 3, 20 * kMiB));
    CHECK(allocator->stats().retries == 1);
  }
}

// Plays as many random allocations and frees to both.  Returns the retries.
int64_t CompareWithTwin(unsigned seed, int64_t card_bytes, const AllocatorConf& conf) {
  std::mt19937 random(seed);
  const auto source = NewCountingSource(card_bytes);
  const auto fast = NewCachingAllocator(*source, conf);
  SlowAllocator slow(card_bytes, conf);
  std::vector<int> live;
  for (int buffer = 0; buffer < 400; ++buffer) {
    const auto log_bytes = static_cast<int>(random() % 27);
    const auto bytes = static_cast<int64_t>(random() % (uint64_t{1} << log_bytes));
    const bool fits = fast->Alloc(buffer, bytes);
    REQUIRE(slow.Alloc(buffer, bytes) == fits);
    if (fits) live.push_back(buffer);
    while (!live.empty() && random() % 9 < 4) {
      const size_t at = random() % live.size();
      fast->Free(live[at]);
      slow.Free(live[at]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
    }
    REQUIRE(fast->stats() == slow.stats());
    REQUIRE(fast->stats().requested_bytes <= fast->stats().allocated_bytes);
    REQUIRE(fast->stats().allocated_bytes <= fast->stats().reserved_bytes);
  }
  return fast->stats().retries;
}

TEST_CASE("the caching allocator agrees with a slow twin on random traces") {
  const std::string confs[] = {
      "backend:native",
      "max_split_size_mb:21",
      "max_split_size_mb:24,max_non_split_rounding_mb:22",
      "roundup_power2_divisions:4",
      "roundup_power2_divisions:[1:8,4:2,16:4,>:1]",
      "large_segment_size_mb:32",
      "per_process_memory_fraction:0.8",
      "per_process_memory_fraction:0.9,garbage_collection_threshold:0.3",
      "per_process_memory_fraction:0.9,garbage_collection_threshold:0.5,max_split_size_mb:21",
      "expandable_segments:True",
      "expandable_segments:True,large_segment_size_mb:12,roundup_power2_divisions:2",
      "expandable_segments:True,max_split_size_mb:21",
      "expandable_segments:True,per_process_memory_fraction:0.8,garbage_collection_threshold:0.3",
  };
  for (const std::string& text : confs) {
    CAPTURE(text);
    const AllocatorConf conf = Conf(text);
    int64_t retries = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      CAPTURE(seed);
      retries += CompareWithTwin(seed, seed % 2 == 0 ? kEndless : 200 * kMiB, conf);
    }
    CHECK(retries > 0);
  }
}

TEST_CASE("a full card takes back what is free as a whole, then fails") {
  struct Row {
    const char* name;
    std::vector<int64_t> script;
    bool last_fits;
    int64_t reserved;
    int64_t retries;
    const char* conf = "backend:native";
  };
  const Row rows[] = {
      {"room is left", {40 * kMiB, 20 * kMiB}, true, 60 * kMiB, 0},
      {"a free segment goes back", {40 * kMiB, -1, 60 * kMiB}, true, 60 * kMiB, 1},
      {"a small one too", {40 * kMiB, 1000, -2, 60 * kMiB - 1}, false, 40 * kMiB, 1},
      {"a segment in use stays", {30 * kMiB, 6 * kMiB, -1, 40 * kMiB}, true, 60 * kMiB, 1},
      {"half a segment stays", {6 * kMiB, 6 * kMiB, -1, 41 * kMiB}, false, 20 * kMiB, 1},
      {"never more than the card", {65 * kMiB}, false, 0, 1},
      {"pages between blocks go back",
       {18 * kMiB, 24 * kMiB, 10 * kMiB, -2, 28 * kMiB},
       true,
       60 * kMiB,
       1,
       "expandable_segments:True"},
      {"the part of a page stays",
       {18 * kMiB, 20 * kMiB, 10 * kMiB, -2, 28 * kMiB},
       false,
       60 * kMiB,
       1,
       "expandable_segments:True"},
      {"a half of the card is the limit",
       {20 * kMiB, 20 * kMiB},
       false,
       20 * kMiB,
       1,
       "per_process_memory_fraction:0.5"},
      {"what is never split goes first",
       {22 * kMiB, 24 * kMiB, 12 * kMiB, -1, -2, -3, 30 * kMiB},
       true,
       42 * kMiB,
       0,
       "max_split_size_mb:21"},
      {"the old goes before the card is full",
       {22 * kMiB, 12 * kMiB, -1, 30 * kMiB},
       true,
       42 * kMiB,
       0,
       "per_process_memory_fraction:0.9,garbage_collection_threshold:0.5"},
      {"without garbage collection it goes when the card is full",
       {22 * kMiB, 12 * kMiB, -1, 30 * kMiB},
       true,
       42 * kMiB,
       1,
       "per_process_memory_fraction:0.9"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto source = NewCountingSource(60 * kMiB);
    const auto allocator = NewCachingAllocator(*source, Conf(row.conf));
    bool fits = true;
    BufferId next = 1;
    for (const int64_t step : row.script) {
      if (step < 0) {
        allocator->Free(static_cast<BufferId>(-step));
      } else {
        fits = allocator->Alloc(next++, step);
      }
    }
    CHECK(fits == row.last_fits);
    CHECK(allocator->stats().reserved_bytes == row.reserved);
    CHECK(allocator->stats().retries == row.retries);
  }
}

}  // namespace
}  // namespace onnxfit::caching_allocator_test

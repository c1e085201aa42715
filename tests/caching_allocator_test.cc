#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/memory/allocator.h"

namespace onnxfit {
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

AllocatorStats Play(const std::vector<int64_t>& script) {
  const auto source = NewCountingSource(kEndless);
  const auto allocator = NewCachingAllocator(*source);
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

// The same rules, written slowly: every segment is a list of pieces, every search looks
// at all of them.
class SlowAllocator {
 public:
  void Alloc(int buffer, int64_t bytes) {
    requested_ += bytes;
    sizes_[buffer] = bytes;
    if (bytes == 0) return;
    const int64_t need = std::max<int64_t>(512, (bytes + 511) / 512 * 512);
    const bool small = need <= kMiB;
    Place best = {-1, -1, 0};
    for (int s = 0; s < static_cast<int>(segments_.size()); ++s) {
      if (segments_[static_cast<size_t>(s)].small != small) continue;
      const auto& pieces = segments_[static_cast<size_t>(s)].pieces;
      for (int p = 0; p < static_cast<int>(pieces.size()); ++p) {
        const Piece& piece = pieces[static_cast<size_t>(p)];
        if (piece.buffer != kFree || piece.bytes < need) continue;
        if (best.segment < 0 || piece.bytes < best.bytes) best = {s, p, piece.bytes};
      }
    }
    if (best.segment < 0) best = AddSegment(need, small);
    auto& pieces = segments_[static_cast<size_t>(best.segment)].pieces;
    const int64_t tail = best.bytes - need;
    const bool split = small ? tail >= 512 : tail > kMiB;
    pieces[static_cast<size_t>(best.piece)] = {buffer, split ? need : best.bytes};
    if (split) pieces.insert(pieces.begin() + best.piece + 1, {kFree, tail});
  }

  void Free(int buffer) {
    requested_ -= sizes_.at(buffer);
    sizes_.erase(buffer);
    for (Segment& segment : segments_) {
      for (Piece& piece : segment.pieces) {
        if (piece.buffer == buffer) piece.buffer = kFree;
      }
      std::vector<Piece> merged;
      for (const Piece& piece : segment.pieces) {
        if (!merged.empty() && merged.back().buffer == kFree && piece.buffer == kFree) {
          merged.back().bytes += piece.bytes;
        } else {
          merged.push_back(piece);
        }
      }
      segment.pieces = merged;
    }
  }

  AllocatorStats stats() const {
    AllocatorStats stats = {.requested_bytes = requested_};
    for (const Segment& segment : segments_) {
      for (const Piece& piece : segment.pieces) {
        stats.reserved_bytes += piece.bytes;
        if (piece.buffer != kFree) stats.allocated_bytes += piece.bytes;
      }
    }
    return stats;
  }

 private:
  static constexpr int kFree = -1;
  struct Piece {
    int buffer;
    int64_t bytes;
  };
  struct Segment {
    bool small;
    std::vector<Piece> pieces;
  };
  struct Place {
    int segment;
    int piece;
    int64_t bytes;
  };

  Place AddSegment(int64_t need, bool small) {
    int64_t bytes = (need + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
    if (need < 10 * kMiB) bytes = 20 * kMiB;
    if (small) bytes = 2 * kMiB;
    segments_.push_back({small, {{kFree, bytes}}});
    return {static_cast<int>(segments_.size()) - 1, 0, bytes};
  }

  std::vector<Segment> segments_;
  std::map<int, int64_t> sizes_;
  int64_t requested_ = 0;
};

TEST_CASE("the caching allocator agrees with a slow twin on random traces") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto source = NewCountingSource(kEndless);
    const auto fast = NewCachingAllocator(*source);
    SlowAllocator slow;
    std::vector<int> live;
    for (int buffer = 0; buffer < 400; ++buffer) {
      const auto log_bytes = static_cast<int>(random() % 26);
      const auto bytes = static_cast<int64_t>(random() % (uint64_t{1} << log_bytes));
      REQUIRE(fast->Alloc(buffer, bytes));
      slow.Alloc(buffer, bytes);
      live.push_back(buffer);
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
  }
}

TEST_CASE("a full card takes back what is free as a whole, then fails") {
  struct Row {
    const char* name;
    std::vector<int64_t> script;
    bool last_fits;
    int64_t reserved;
    int64_t retries;
  };
  const Row rows[] = {
      {"room is left", {40 * kMiB, 20 * kMiB}, true, 60 * kMiB, 0},
      {"a free segment goes back", {40 * kMiB, -1, 60 * kMiB}, true, 60 * kMiB, 1},
      {"a small one too", {40 * kMiB, 1000, -2, 60 * kMiB - 1}, false, 40 * kMiB, 1},
      {"a segment in use stays", {30 * kMiB, 6 * kMiB, -1, 40 * kMiB}, true, 60 * kMiB, 1},
      {"half a segment stays", {6 * kMiB, 6 * kMiB, -1, 41 * kMiB}, false, 20 * kMiB, 1},
      {"never more than the card", {65 * kMiB}, false, 0, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto source = NewCountingSource(60 * kMiB);
    const auto allocator = NewCachingAllocator(*source);
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
}  // namespace onnxfit

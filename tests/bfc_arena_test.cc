#include "estimator/memory/bfc_arena.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"

namespace onnxfit::bfc_arena_test {
namespace {

constexpr ExtendStrategy kSame = ExtendStrategy::kSameAsRequested;

// Plays a script: n > 0 allocates n bytes, -n frees what the nth of these got (from 1).
void Play(BfcArena& arena, const std::vector<int64_t>& script) {
  std::vector<ArenaHandle> handles;
  for (const int64_t step : script) {
    if (step < 0) {
      arena.Free(handles[Index(-step - 1)]);
      continue;
    }
    const std::optional<ArenaHandle> handle = arena.Allocate(step);
    REQUIRE(handle.has_value());
    handles.push_back(*handle);
  }
}

struct Vector {
  const char* name;
  std::vector<int64_t> script;
  int64_t in_use;
  int64_t total;
};

TEST_CASE("chunks are rounded, found, split and joined") {
  const Vector vectors[] = {
      {"nothing asked, nothing held", {0, -1}, 0, 0},
      {"a byte is 256", {1}, 256, 1 * kMiB},
      {"the first region, to its end", {1 * kMiB}, 1 * kMiB, 1 * kMiB},
      {"a rest as large as the request is split off", {512 * kKiB}, 512 * kKiB, 1 * kMiB},
      {"a smaller one lies idle", {512 * kKiB + 1}, 1 * kMiB, 1 * kMiB},
      // Of the free chunks of 1 and 2 MiB, the smaller.
      {"best fit", {1 * kMiB, 2 * kMiB, -1, -2, 1 * kMiB}, 1 * kMiB, 3 * kMiB},
      {"joined with the next", {1024, 1024, 2048, -2, -1, 2048}, 4 * kKiB, 1 * kMiB},
      {"joined with both", {256, 256, 256, 1047808, -1, -3, -2, 768}, 1048576, 1 * kMiB},
      {"regions stay apart", {1 * kMiB, 2 * kMiB, -1, -2, 3 * kMiB}, 4 * kMiB, 7 * kMiB},
  };
  for (const Vector& vector : vectors) {
    CAPTURE(vector.name);
    BfcArena arena;
    Play(arena, vector.script);
    CHECK(arena.in_use_bytes() == vector.in_use);
    CHECK(arena.total_bytes() == vector.total);
  }
}

TEST_CASE("of a large chunk, 128 MiB are split off whatever the request") {
  BfcArena arena({.extend_strategy = kSame});
  Play(arena, {400 * kMiB, -1, 272 * kMiB});
  CHECK(arena.in_use_bytes() == 272 * kMiB);
  Play(arena, {128 * kMiB});  // the rest
  CHECK(arena.total_bytes() == 400 * kMiB);
  BfcArena other({.extend_strategy = kSame});
  Play(other, {400 * kMiB, -1, 272 * kMiB + 1});
  CHECK(other.in_use_bytes() == 400 * kMiB);
}

// The weights of a ResNet-50 as onnxruntime-gpu 1.31.1 logged them: what was asked when it
// extended, and by how much.  Here each region is filled before the next request.
TEST_CASE("regions double") {
  const ArenaExtension logged[] = {
      {8192, 1048576, 1048576},       {2359296, 4194304, 5242880},   {4194304, 4194304, 9437184},
      {1048576, 8388608, 17825792},   {8192000, 16777216, 34603008}, {9437184, 33554432, 68157440},
      {8388608, 67108864, 135266304},
  };
  BfcArena arena;
  for (const ArenaExtension& extension : logged) {
    Play(arena, {extension.requested_bytes});
    CHECK(arena.extensions().back() == extension);
    if (arena.in_use_bytes() < arena.total_bytes()) {
      Play(arena, {arena.total_bytes() - arena.in_use_bytes()});
    }
  }
  CHECK(arena.extensions().size() == 7);
}

TEST_CASE("1 GiB is the most for what comes next, not for what is asked") {
  BfcArena arena({.initial_chunk_bytes = 512 * kMiB});
  Play(arena, {512 * kMiB, 1 * kGiB, 1 * kGiB, 3 * kGiB, 1 * kGiB, 4 * kGiB, 1 * kGiB});
  std::vector<int64_t> regions;
  for (const ArenaExtension& extension : arena.extensions()) {
    regions.push_back(extension.bytes / kMiB);
  }
  // 3 GiB double the step to 4 GiB, which the next region has, too; then it falls back.  The rest
  // of the first 4 GiB holds 1 GiB more.
  CHECK(regions == std::vector<int64_t>{512, 1024, 1024, 4096, 4096, 1024});
}

TEST_CASE("kSameAsRequested asks for the request") {
  BfcArena arena({.extend_strategy = kSame});
  Play(arena, {1000, 5 * kMiB, -1, 512});
  CHECK(arena.total_bytes() == 5 * kMiB + 1024);
  CHECK(arena.in_use_bytes() == 5 * kMiB + 512);
  CHECK(arena.max_in_use_bytes() == 5 * kMiB + 1024);
}

TEST_CASE("a device that refuses a region is asked for a tenth less, and so on") {
  BfcArena arena({.capacity_bytes = 20 * kMiB});
  Play(arena, {15 * kMiB, 2 * kMiB});
  // Of 16 MiB, those times 0.9, ... : the first that fits into 4 MiB.
  CHECK(arena.extensions().back() == ArenaExtension{2 * kMiB, 3838720, 16 * kMiB + 3838720});
  CHECK(!arena.Allocate(5 * kMiB).has_value());
  CHECK(arena.total_bytes() == 16 * kMiB + 3838720);
  BfcArena small({.capacity_bytes = 8 * kKiB - 1});
  CHECK(!small.Allocate(256).has_value());  // no region is smaller than 8 KiB then
}

TEST_CASE("the limit cuts a region short, and is void once what is reserved has passed it") {
  BfcArena arena({.memory_limit_bytes = 7 * kMiB});
  Play(arena, {5 * kMiB});
  CHECK(arena.total_bytes() == 7 * kMiB);
  CHECK(!arena.Allocate(3 * kMiB).has_value());
  const std::optional<ArenaHandle> reserved = arena.Reserve(1000);
  REQUIRE(reserved.has_value());
  CHECK(arena.total_bytes() == 7 * kMiB + 1000);
  CHECK(arena.in_use_bytes() == 7 * kMiB + 1000);
  Play(arena, {3 * kMiB});
  CHECK(arena.extensions().back().bytes == 8 * kMiB);
  arena.Free(*reserved);
  CHECK(arena.total_bytes() == 15 * kMiB);
}

TEST_CASE("shrinking keeps the first region and what is in use, and begins at 2 MiB") {
  BfcArena arena;
  Play(arena, {1 * kMiB, 9 * kMiB, 9 * kMiB, 1024, -1, -2, -4});
  CHECK(arena.total_bytes() == (1 + 16 + 16 + 32) * kMiB);
  arena.Shrink();
  CHECK(arena.total_bytes() == (1 + 16) * kMiB);
  CHECK(arena.in_use_bytes() == 16 * kMiB);
  Play(arena, {2 * kMiB});
  CHECK(arena.extensions().back().bytes == 2 * kMiB);
  BfcArena same({.extend_strategy = kSame});
  Play(same, {1 * kMiB, 9 * kMiB, -1});
  same.Shrink();
  CHECK(same.total_bytes() == 9 * kMiB);
}

// As onnxruntime-gpu 1.31.1 does with a model that asks for these: of a region of 32 MiB, 9.5 are
// taken and freed, and behind them are 22.5 that the run has not touched.
TEST_CASE("within a run, a chunk is not joined with what the run has not touched") {
  struct Row {
    int64_t last;
    int64_t total;
  };
  for (const Row& row : {Row{22 * kMiB, 68157440}, Row{23 * kMiB, 135266304}}) {
    BfcArena arena;
    Play(arena, {8});
    arena.BeginRun();
    Play(arena, {9 * kMiB, 9472 * kKiB, 9728 * kKiB, -1, -2, -3, row.last, -4});
    CHECK(arena.total_bytes() == row.total);
    arena.EndRun();
    Play(arena, {17 * kMiB});  // then all 32 MiB are one chunk, which is not split for it
    CHECK(arena.in_use_bytes() == 32 * kMiB + 256);
  }
}

TEST_CASE("what a run has touched is joined within it") {
  BfcArena arena;
  arena.BeginRun();
  Play(arena, {9 * kMiB, 9472 * kKiB, 9728 * kKiB, 9984 * kKiB, -3, -4, 19 * kMiB});
  CHECK(arena.total_bytes() == 64 * kMiB);
  arena.EndRun();
}

// Requests of which a number tells all.
class Requests {
 public:
  explicit Requests(uint64_t state) : state_(state) {}

  int64_t Below(int64_t end) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>(state_ >> 33) % end;
  }

 private:
  uint64_t state_;
};

class RandomPlay {
 public:
  RandomPlay(const ArenaConfig& config, uint64_t seed) : arena(config), requests_(seed) {}

  void Step() {
    const int64_t kind = requests_.Below(16);
    if (live_.empty() || kind < 9) {
      const int64_t most = requests_.Below(2) == 0 ? 20 * kMiB : Power(8 + requests_.Below(17));
      Keep(arena.Allocate(1 + requests_.Below(most)));
    } else if (kind == 9) {
      Keep(arena.Reserve(64 * (1 + requests_.Below(4096))));
    } else if (kind == 10 && requests_.Below(4) == 0) {
      arena.Shrink();
    } else {
      ArenaHandle& freed = live_[Index(requests_.Below(static_cast<int64_t>(live_.size())))];
      arena.Free(freed);
      freed = live_.back();
      live_.pop_back();
    }
    digest = digest * 31 + static_cast<uint64_t>(arena.total_bytes());
    digest = digest * 31 + static_cast<uint64_t>(arena.in_use_bytes());
  }

  BfcArena arena;
  int refused = 0;
  uint64_t digest = 0;  // of all totals and what was in use, step by step

 private:
  static int64_t Power(int64_t exponent) { return int64_t{1} << exponent; }

  void Keep(std::optional<ArenaHandle> handle) {
    if (handle.has_value()) live_.push_back(*handle);
    if (!handle.has_value()) ++refused;
  }

  Requests requests_;
  std::vector<ArenaHandle> live_;
};

struct Recorded {
  ArenaConfig config;
  int64_t total;
  int64_t max_in_use;
  int refused;
  size_t extensions;
  uint64_t digest;
};

// The arena of onnxruntime 1.31.1's own library (its CPU provider, CreateArenaCfgV2), asked the
// same, over memory of that capacity whose addresses ascend.
TEST_CASE("the arena does what ONNX Runtime's does, request by request") {
  const Recorded rows[] = {
      {{}, 1372808256, 1238577728, 0, 30, 0x78c51a5e096ca800},
      {{.extend_strategy = kSame}, 958067328, 953431744, 0, 80, 0x141b6a1dc0ae4500},
      {{.memory_limit_bytes = 256 * kMiB}, 942946176, 921790336, 15, 21, 0xb10bed2f2cbfef00},
      {{.capacity_bytes = 300 * kMiB}, 314546176, 313510336, 81, 13, 0x1bbd2b5ab7230800},
      {{.extend_strategy = kSame, .capacity_bytes = 300 * kMiB},
       312254272,
       310772416,
       48,
       41,
       0x9a41a4a4cf3b200},
      {{.initial_chunk_bytes = 16 * kMiB, .max_power_of_two_extend_bytes = 8 * kMiB},
       1177347648,
       1164445248,
       0,
       52,
       0x90609aebc94a8400},
      {{.initial_growth_chunk_bytes = 512 * kKiB, .max_dead_bytes_per_chunk = 1 * kMiB},
       824920512,
       608769728,
       0,
       20,
       0x5cf417683c23f600},
      {{.max_power_of_two_extend_bytes = 48 * kMiB,
        .memory_limit_bytes = 1000 * kMiB,
        .capacity_bytes = 700 * kMiB},
       733948416,
       732711616,
       44,
       24,
       0xa0bc4dc15069900},
  };
  uint64_t seed = 0;
  for (const Recorded& row : rows) {
    ++seed;
    CAPTURE(seed);
    RandomPlay play(row.config, seed);
    for (int step = 0; step < 600; ++step) play.Step();
    CHECK(play.arena.total_bytes() == row.total);
    CHECK(play.arena.max_in_use_bytes() == row.max_in_use);
    CHECK(play.refused == row.refused);
    CHECK(play.arena.extensions().size() == row.extensions);
    CHECK(play.digest == row.digest);
  }
}

}  // namespace
}  // namespace onnxfit::bfc_arena_test

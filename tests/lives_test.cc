#include "estimator/memory/lives.h"

#include <doctest/doctest.h>

#include "tests/trace_writer.h"

namespace onnxfit::lives_test {
namespace {

// Of buffers w, h, w.grad and m (tests/trace_writer.h).
TEST_CASE("each buffer has its events, its block and what held it last") {
  const Trace trace = TwoSteps();
  const Lives lives = ReadLives(trace);
  struct Row {
    Event::Type born;
    bool dies;
    int64_t block_bytes;
    Kind kind;
  };
  const Row rows[] = {{Event::Type::kAlloc, false, 1024, Kind::kParameter},
                      {Event::Type::kAlloc, true, 3072, Kind::kActivation},
                      {Event::Type::kAlloc, true, 1024, Kind::kGradient},
                      {Event::Type::kAlloc, false, 1024, Kind::kOptimizerState}};
  REQUIRE(lives.of_buffer.size() == std::size(rows));
  for (size_t i = 0; i < std::size(rows); ++i) {
    CAPTURE(i);
    const Life& life = lives.of_buffer[i];
    const auto id = static_cast<BufferId>(i);
    CHECK(trace.events[static_cast<size_t>(life.born)].type == rows[i].born);
    CHECK(trace.events[static_cast<size_t>(life.born)].id == id);
    CHECK((life.dies != kNever) == rows[i].dies);
    if (rows[i].dies) CHECK(trace.events[static_cast<size_t>(life.dies)].id == id);
    CHECK(life.block_bytes == rows[i].block_bytes);
    CHECK(life.kind == rows[i].kind);
  }
}

TEST_CASE("a block that leaves too little of its segment is larger than its rounded size") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("a", 5 << 20, Kind::kParameter);
  writer.Alloc("b", (15 << 20) - 1000, Kind::kParameter);  // 20 MiB segments split at 1 MiB
  CHECK(ReadLives(writer.trace()).of_buffer[1].block_bytes == 15 << 20);
}

TEST_CASE("blocks are those of the allocator that is asked for") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("a", 5 << 19, Kind::kParameter);
  AllocatorConf conf;
  conf.roundup_divisions.fill(2);  // to 2, 3 and 4 MiB
  CHECK(ReadLives(writer.trace(), conf).of_buffer[0].block_bytes == 3 << 20);
}

TEST_CASE("steps count their events and know their peak") {
  const Trace trace = TwoSteps();
  const Lives lives = ReadLives(trace);
  REQUIRE(lives.steps.size() == 2);
  CHECK(lives.steps[0].allocations == 3);
  CHECK(lives.steps[0].frees == 1);
  CHECK(lives.steps[0].largest == 1);
  CHECK(lives.steps[0].peak_allocated_bytes == 1024 + 3072 + 1024);
  CHECK(lives.steps[0].peak.phase == Phase::kBackward);
  CHECK(lives.steps[0].peak.operators == 2);
  CHECK(lives.steps[1].allocations == 0);
  CHECK(lives.steps[1].frees == 1);
  CHECK(lives.steps[1].largest == -1);
  CHECK(lives.steps[1].peak_allocated_bytes == 1024 + 1024 + 1024);  // what step 1 left
  CHECK(lives.of_event[static_cast<size_t>(lives.peak)] == lives.steps[0].peak);
  CHECK(lives.peak_allocated_bytes == lives.steps[0].peak_allocated_bytes);
}

}  // namespace
}  // namespace onnxfit::lives_test

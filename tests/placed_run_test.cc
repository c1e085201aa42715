#include "estimator/memory/placed_run.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/memory/timeline.h"
#include "tests/trace_helpers.h"
#include "tests/trace_writer.h"

namespace onnxfit::placed_run_test {
namespace {

std::string Written(const PlacedRun& run) {
  std::string text;
  for (const PlacedEvent& event : run.events) {
    const char* const words[] = {"segment", "map", "alloc", "free"};
    text += words[static_cast<size_t>(event.action)];
    text += " " + std::to_string(event.address - run.segments[0].address) + " " +
            std::to_string(event.bytes) + "\n";
  }
  return text;
}

TEST_CASE("blocks follow each other in their segment, and free ones are taken again") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("a", 1000, Kind::kParameter);
  writer.Alloc("b", 3000, Kind::kParameter).Free(0).Alloc("c", 700, Kind::kParameter);
  writer.Alloc("none", 0, Kind::kParameter);
  CHECK(Written(ReplayPlaced(writer.trace())) ==
        "segment 0 2097152\n"
        "alloc 0 1024\n"
        "alloc 1024 3072\n"
        "free 0 1024\n"
        "alloc 0 1024\n");
}

TEST_CASE("large blocks are in segments of their own pool") {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("a", 512, Kind::kParameter);
  writer.Alloc("b", 30 * kMiB, Kind::kParameter);
  const PlacedRun run = ReplayPlaced(writer.trace());
  REQUIRE(run.segments.size() == 2);
  CHECK(run.segments[0].is_small);
  CHECK_FALSE(run.segments[1].is_small);
  CHECK(run.segments[1].bytes == 30 * kMiB);
}

// The law of any allocator: what lives lies apart, in a segment.
TEST_CASE("no two live blocks share a byte, with fixed and with expandable segments") {
  const Trace trace = Build(kTwoLayers, {}).program.calls.empty()
                          ? Trace()
                          : Train(Build(kTwoLayers, {}).program, {});
  for (const bool expandable : {false, true}) {
    AllocatorConf conf;
    conf.expandable_segments = expandable;
    const PlacedRun run = ReplayPlaced(trace, conf);
    std::map<int64_t, int64_t> live;  // ends by address
    int64_t reserved = 0;
    for (const PlacedEvent& event : run.events) {
      const bool grows =
          event.action == (expandable ? PlacedEvent::Action::kMap : PlacedEvent::Action::kSegment);
      if (grows) reserved += event.bytes;
      if (event.action == PlacedEvent::Action::kFree) CHECK(live.erase(event.address) == 1);
      if (event.action != PlacedEvent::Action::kAlloc) continue;
      const auto next = live.lower_bound(event.address);
      if (next != live.end()) CHECK(event.address + event.bytes <= next->first);
      if (next != live.begin()) CHECK(std::prev(next)->second <= event.address);
      live[event.address] = event.address + event.bytes;
    }
    CHECK(run.events.size() > 10);
    int64_t in_segments = 0;
    for (const PlacedSegment& segment : run.segments) in_segments += segment.bytes;
    CHECK(in_segments == reserved);
    if (expandable) CHECK(run.segments.size() <= 2);  // one a pool
    CHECK(reserved == Replay(trace, conf).peak.reserved_bytes);
  }
}

}  // namespace
}  // namespace onnxfit::placed_run_test

#include "estimator/snapshot/recorded_run.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/snapshot_text.h"

namespace onnxfit::recorded_run_test {
namespace {

using What = RecordedMoment::What;

// What lives at an event, by bytes in order of birth: "100 300".
std::string LiveText(const RecordedRun& run, int64_t event) {
  std::string text;
  for (const size_t index : run.LiveAt(event)) {
    text += (text.empty() ? "" : " ") + std::to_string(run.blocks[index].bytes);
  }
  return text;
}

}  // namespace

TEST_CASE("what lived is followed back from the end") {
  const RecordedRun run = FollowSnapshot(ParseSnapshotText(R"(
+a 100
+b 200
-a
+c 300
-b
)"));
  CHECK(run.events == 5);
  const char* expected[] = {"", "100", "100 200", "200", "200 300", "300"};
  for (int64_t event = 0; event <= run.events; ++event) {
    CAPTURE(event);
    CHECK(LiveText(run, event) == expected[event]);
  }
  CHECK(run.peak.what == What::kPeak);
  CHECK(run.peak.event == 4);
  CHECK(run.peak.requested_bytes == 500);
  CHECK(run.moment.event == 4);
  CHECK(run.contradictions == 0);
}

TEST_CASE("a history that begins late knows what it saw go, and what the end has") {
  const RecordedRun run = FollowSnapshot(ParseSnapshotText(R"(
+early 100
+kept 50
history
+a 20
-early
)"));
  CHECK(LiveText(run, 0) == "50 100");
  CHECK(LiveText(run, 2) == "50 20");
  CHECK(run.peak.requested_bytes == 170);
  CHECK(run.peak.event == 1);
}

TEST_CASE("an address lives again under another size") {
  MemorySnapshot snapshot = ParseSnapshotText("+a 100\n-a\n+b 300\n-b\n");
  for (SnapshotEvent& event : snapshot.events) event.address = 512;
  const RecordedRun run = FollowSnapshot(snapshot);
  CHECK(LiveText(run, 1) == "100");
  CHECK(LiveText(run, 3) == "300");
  CHECK(run.contradictions == 0);
}

TEST_CASE("where the card was full counts, the last time") {
  const RecordedRun run = FollowSnapshot(ParseSnapshotText(R"(
reserve 1000
+a 100 net.py:1:f
oom 700 net.py:2:f
+b 500
-b
oom 900 net.py:3:f
release 400
)"));
  CHECK(run.moment.what == What::kOom);
  CHECK(run.moment.event == 6);
  CHECK(run.moment.requested_bytes == 100);
  CHECK(run.moment.reserved_bytes == 1000);
  CHECK(run.moment.asked_bytes == 900);
  CHECK(run.moment.asked_by == 3);
  CHECK(run.peak.requested_bytes == 600);
}

TEST_CASE("without a history there is the end alone") {
  MemorySnapshot snapshot = ParseSnapshotText("reserve 1000\n+a 100\n");
  snapshot.events.clear();
  const RecordedRun run = FollowSnapshot(snapshot);
  CHECK(run.moment.what == What::kTaken);
  CHECK(run.moment.requested_bytes == 100);
  CHECK(run.moment.reserved_bytes == 1000);
  CHECK(LiveText(run, 0) == "100");
}

TEST_CASE("segments are counted from what the end has") {
  const RecordedRun run = FollowSnapshot(ParseSnapshotText(R"(
reserve 1000
history
release 300
reserve 50
+a 10
)"));
  CHECK(run.peak.reserved_bytes == 750);
}

TEST_CASE("events that cannot be are counted, and passed over") {
  MemorySnapshot twice = ParseSnapshotText("+a 100\n-a\n");
  twice.events.push_back(twice.events.back());
  CHECK(FollowSnapshot(twice).contradictions == 1);
  MemorySnapshot unseen = ParseSnapshotText("+a 100\n");
  unseen.live.clear();
  CHECK(FollowSnapshot(unseen).contradictions == 1);
  CHECK(FollowSnapshot(unseen).blocks.empty());
}

}  // namespace onnxfit::recorded_run_test

#include "estimator/snapshot/memory_snapshot.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "estimator/base/error.h"
#include "estimator/picture/pickle.h"
#include "estimator/snapshot/python_frames.h"

namespace onnxfit::memory_snapshot_test {
namespace {

using Action = SnapshotEvent::Action;
using Part = std::function<void(PickleWriter&)>;

void WriteFrame(PickleWriter& out, const char* name, const char* file, int64_t line) {
  out.BeginDict().Item("name", name).Item("filename", file).Item("line", line).EndDict();
}

// In Python's order: innermost first, those of C++ around them.
void WriteFrames(PickleWriter& out, bool is_backward = false) {
  out.Text("frames").BeginList();
  WriteFrame(out, "c10::cuda::malloc(unsigned long)", "CUDACachingAllocator.cpp", 0);
  if (is_backward) WriteFrame(out, "torch::autograd::Engine::evaluate_function()", "??", 0);
  WriteFrame(out, "linear", "/x/site-packages/torch/nn/functional.py", 134);
  WriteFrame(out, "forward", "/home/me/net.py", 12);
  out.EndList();
}

void WriteBlock(PickleWriter& out, int64_t address, const char* state) {
  out.BeginDict().Item("address", address).Item("size", int64_t{1024});
  out.Item("requested_size", int64_t{1000}).Item("state", state);
  WriteFrames(out);
  out.EndDict();
}

void WriteSegment(PickleWriter& out, int64_t device, int64_t bytes, const Part& blocks) {
  out.BeginDict().Item("device", device).Item("address", int64_t{4096}).Item("total_size", bytes);
  out.Text("blocks").BeginList();
  blocks(out);
  out.EndList().EndDict();
}

void WriteEvent(PickleWriter& out, const char* action, int64_t address, int64_t bytes,
                bool is_backward = false) {
  out.BeginDict().Item("action", action).Item("addr", address).Item("size", bytes);
  WriteFrames(out, is_backward);
  out.EndDict();
}

std::string SnapshotOf(const Part& segments, const Part& traces) {
  PickleWriter out;
  out.BeginDict().Text("segments").BeginList();
  segments(out);
  out.EndList().Text("device_traces").BeginList();
  traces(out);
  out.EndList().EndDict();
  return out.Finish();
}

void Nothing(PickleWriter&) {}

void OneSegment(PickleWriter& out) {
  WriteSegment(out, 0, 2 << 20, [](PickleWriter& blocks) {
    WriteBlock(blocks, 4096, "active_allocated");
    WriteBlock(blocks, 5120, "inactive");
    WriteBlock(blocks, 6144, "active_pending_free");
  });
}

std::string ErrorOf(const std::string& bytes) {
  try {
    ReadMemorySnapshot(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("blocks that live, and who asked for them") {
  const MemorySnapshot snapshot = ReadMemorySnapshot(SnapshotOf(OneSegment, Nothing));
  CHECK(snapshot.reserved_bytes == 2 << 20);
  REQUIRE(snapshot.live.size() == 2);
  CHECK(snapshot.live[0].address == 4096);
  CHECK(snapshot.live[0].bytes == 1024);
  CHECK(snapshot.live[0].requested_bytes == 1000);
  CHECK(snapshot.live[1].address == 6144);
  // Frames of C++ are left out, equal stacks are one.
  CHECK(snapshot.live[0].stack == snapshot.live[1].stack);
  REQUIRE(snapshot.frames.size() == 2);
  CHECK(snapshot.frames[1] ==
        SnapshotFrame{.function = "forward", .file = "/home/me/net.py", .line = 12});
  CHECK(snapshot.stacks[1].frames == std::vector<FrameId>{0, 1});
  CHECK_FALSE(snapshot.stacks[1].is_backward);
}

TEST_CASE("events that move memory") {
  const MemorySnapshot snapshot = ReadMemorySnapshot(SnapshotOf(Nothing, [](PickleWriter& out) {
    out.BeginList();
    WriteEvent(out, "segment_alloc", 4096, 2 << 20);
    WriteEvent(out, "alloc", 4096, 1000);
    WriteEvent(out, "alloc", 5120, 1000, true);
    WriteEvent(out, "free_requested", 4096, 1000);
    WriteEvent(out, "free_completed", 4096, 1000);
    WriteEvent(out, "segment_map", 4096, 100);
    WriteEvent(out, "segment_unmap", 4096, 100);
    WriteEvent(out, "segment_free", 4096, 2 << 20);
    // It has no address.
    out.BeginDict().Item("action", "oom").Item("device_free", int64_t{7}).Item("size", int64_t{9});
    out.EndDict();
    WriteEvent(out, "workspace_snapshot", 0, 0);
    out.EndList();
  }));
  const Action expected[] = {Action::kReserve, Action::kAlloc,   Action::kAlloc,   Action::kFree,
                             Action::kReserve, Action::kRelease, Action::kRelease, Action::kOom};
  REQUIRE(snapshot.events.size() == std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) CHECK(snapshot.events[i].action == expected[i]);
  CHECK(snapshot.events[1].address == 4096);
  CHECK(snapshot.events[1].bytes == 1000);
  CHECK(snapshot.events[7].bytes == 9);
  CHECK_FALSE(snapshot.stacks[static_cast<size_t>(snapshot.events[1].stack)].is_backward);
  CHECK(snapshot.stacks[static_cast<size_t>(snapshot.events[2].stack)].is_backward);
}

TEST_CASE("of several cards the one that holds most") {
  const auto two = [](PickleWriter& out) {
    WriteSegment(out, 0, 2 << 20, Nothing);
    WriteSegment(out, 1, 4 << 20, [](PickleWriter& b) { WriteBlock(b, 4096, "active_allocated"); });
  };
  const auto traces = [](PickleWriter& out) {
    out.BeginList().EndList().BeginList();
    WriteEvent(out, "alloc", 4096, 1000);
    out.EndList();
  };
  const MemorySnapshot snapshot = ReadMemorySnapshot(SnapshotOf(two, traces));
  CHECK(snapshot.device == 1);
  CHECK(snapshot.devices == 2);
  CHECK(snapshot.reserved_bytes == 4 << 20);
  CHECK(snapshot.live.size() == 1);
  CHECK(snapshot.events.size() == 1);
  // A card whose segments are gone has its history.
  const MemorySnapshot gone = ReadMemorySnapshot(SnapshotOf(Nothing, traces));
  CHECK(gone.device == 1);
  CHECK(gone.devices == 1);
}

TEST_CASE("a list of segments, as torch.cuda.memory_snapshot() gives it") {
  PickleWriter out;
  out.BeginList();
  OneSegment(out);
  out.EndList();
  const MemorySnapshot snapshot = ReadMemorySnapshot(out.Finish());
  CHECK(snapshot.live.size() == 2);
  CHECK(snapshot.events.empty());
}

// PyTorch 2.0's blocks have a size and a state alone.
TEST_CASE("blocks without addresses follow one another") {
  const auto old = [](PickleWriter& out) {
    WriteSegment(out, 0, 2 << 20, [](PickleWriter& blocks) {
      for (const char* state : {"inactive", "active_allocated"}) {
        blocks.BeginDict().Item("size", int64_t{1024}).Item("state", state).EndDict();
      }
    });
  };
  const MemorySnapshot snapshot = ReadMemorySnapshot(SnapshotOf(old, Nothing));
  REQUIRE(snapshot.live.size() == 1);
  CHECK(snapshot.live[0].address == 4096 + 1024);
  CHECK(snapshot.live[0].requested_bytes == 1024);
  CHECK(snapshot.live[0].stack == 0);
}

TEST_CASE("what is no snapshot is refused, and where") {
  struct Row {
    std::string bytes;
    const char* error;
  };
  const auto with_block = [](const Part& block) {
    return SnapshotOf(
        [&](PickleWriter& out) {
          WriteSegment(out, 0, 2 << 20, [&](PickleWriter& blocks) {
            blocks.BeginDict();
            block(blocks);
            blocks.EndDict();
          });
        },
        Nothing);
  };
  const Row rows[] = {
      {PickleWriter().Integer(3).Finish(),
       "byte 2: a memory snapshot, which is a dict with 'segments', was expected, found an integer "
       "(try: torch.cuda.memory._dump_snapshot(\"snapshot.pickle\"))"},
      {PickleWriter().BeginDict().EndDict().Finish(),
       "byte 2: a dict with 'segments' was expected, found one without (try: "
       "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\"))"},
      {PickleWriter().BeginDict().Item("segments", "x").EndDict().Finish(),
       "byte 22: a list (segments) was expected, found a text"},
      {with_block([](PickleWriter& out) { out.Item("size", int64_t{-1}); }),
       "byte 98: a number of bytes (size) was expected, found -1"},
      {with_block([](PickleWriter& out) { out.Item("size", int64_t{1} << 51); }),
       "byte 98: a number of bytes (size) was expected, found 2251799813685248"},
      {with_block([](PickleWriter& out) { out.Item("size", int64_t{512}); }),
       "byte 87: a dict with 'state' was expected, found one without (try: "
       "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\"))"},
      {SnapshotOf([](PickleWriter& out) { WriteSegment(out, -1, 512, Nothing); }, Nothing),
       "byte 19: a segment of device 0 to 1023 was expected, found -1"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.error);
    CHECK(ErrorOf(row.bytes) == row.error);
  }
}

// [s, s] of one segment, by the memo: of n names and n blocks n^2 would be read.
TEST_CASE("a file cannot say more than it is long") {
  PickleWriter out;
  out.BeginList();
  OneSegment(out);
  std::string bytes = out.EndList().Finish();
  bytes.resize(bytes.size() - 2);  // APPENDS, STOP
  CHECK(ErrorOf(bytes + "q\x01h\x01" + "e.") ==
        "byte 4: a segment of its own was expected, found one named twice");
}

TEST_CASE("whose a line is") {
  struct Row {
    const char* file;
    bool is_python;
    bool is_torch;
  };
  const Row rows[] = {
      {"/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", true, true},
      {"torch/optim/adam.py", true, true},
      {"/src/pytorch/torch/_dynamo/eval_frame.py", true, true},
      {"/v/lib/python3.11/site-packages/transformers/models/gpt2/modeling_gpt2.py", true, false},
      {"/usr/lib/python3/dist-packages/numpy/core.py", true, false},
      {"/usr/lib/python3.11/threading.py", true, true},
      {"/home/me/torch/train.py", true, false},
      {"train.py", true, false},
      {"<stdin>", true, false},
      {"<frozen runpy>", true, true},
      {"/tmp/torchinductor_me/ab/cabc.py", true, true},
      {"CUDACachingAllocator.cpp", false, false},
      {"??", false, false},
      {"", false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    CHECK(IsPythonFile(row.file) == row.is_python);
    CHECK(IsOfPyTorch(row.file) == row.is_torch);
  }
}

TEST_CASE("frames of the user's, or all where there are no others") {
  MemorySnapshot snapshot;
  snapshot.frames = {{"linear", "torch/nn/functional.py", 3}, {"forward", "/a/b\\net.py", 5}};
  snapshot.stacks.push_back({.frames = {0, 1}});
  snapshot.stacks.push_back({.frames = {0}});
  CHECK(UserFrames(snapshot, 0).empty());
  CHECK(UserFrames(snapshot, 1) == std::vector<FrameId>{1});
  CHECK(UserFrames(snapshot, 2) == std::vector<FrameId>{0});
  CHECK(FileNameOf(snapshot.frames[1]) == "net.py");
}

}  // namespace onnxfit::memory_snapshot_test

#include <algorithm>
#include <map>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/fit/call_frames.h"
#include "estimator/memory/placed_run.h"
#include "estimator/picture/pickle.h"
#include "estimator/picture/run_files.h"

namespace onnxfit {
namespace {

class SnapshotWriter {
 public:
  explicit SnapshotWriter(const Prediction& prediction)
      : trace_(prediction.trace),
        run_(ReplayPlaced(prediction.trace, prediction.alloc_conf)),
        frames_(FramesByLabel(prediction)) {}

  std::string Write() {
    pickle_.BeginDict();
    WriteSegments();
    pickle_.Text("device_traces").BeginList();
    WriteEvents();
    pickle_.EndList();
    pickle_.Text("allocator_settings").BeginDict().EndDict();
    pickle_.Text("external_annotations").BeginList().EndList();
    pickle_.EndDict();
    return pickle_.Finish();
  }

 private:
  int64_t RequestedOf(BufferId buffer) const { return trace_.buffers[Index(buffer)].bytes; }

  // The statements around what is allocated; what it is called, where no operator runs.
  void WriteFrames(int32_t label, BufferId buffer) {
    pickle_.Text("frames").BeginList();
    if (label >= 0 && Index(label) < frames_.size()) {
      for (const CallFrame& frame : frames_[Index(label)]) {
        WriteFrame(frame.name, frame.where, frame.line);
      }
      WriteFrame(trace_.labels[Index(label)], "operator", 0);
    }
    if (buffer >= 0) {
      WriteFrame(trace_.labels[Index(trace_.buffers[Index(buffer)].label)], "tensor", 0);
    }
    pickle_.EndList();
  }

  void WriteFrame(const std::string& name, const std::string& where, int64_t line) {
    pickle_.BeginDict().Item("name", name).Item("filename", where).Item("line", line).EndDict();
  }

  void WriteEvents() {
    constexpr size_t kBatch = 1000;
    size_t written = 0;
    pickle_.BeginList();
    for (const PlacedEvent& event : run_.events) {
      if (++written % kBatch == 0) pickle_.NextBatch();
      switch (event.action) {
        case PlacedEvent::Action::kSegment:
          WriteEvent("segment_alloc", event, event.bytes);
          break;
        case PlacedEvent::Action::kMap:
          WriteEvent("segment_map", event, event.bytes);
          break;
        case PlacedEvent::Action::kAlloc:
          WriteEvent("alloc", event, RequestedOf(event.buffer));
          break;
        case PlacedEvent::Action::kFree:
          WriteEvent("free_requested", event, RequestedOf(event.buffer));
          WriteEvent("free_completed", event, RequestedOf(event.buffer));
          break;
      }
    }
    pickle_.EndList();
  }

  void WriteEvent(const char* action, const PlacedEvent& event, int64_t bytes) {
    pickle_.BeginDict()
        .Item("action", action)
        .Item("addr", event.address)
        .Item("size", bytes)
        .Item("stream", int64_t{event.stream})
        .Item("time_us", event.moment.operators);
    WriteFrames(event.moment.at, event.buffer);
    pickle_.EndDict();
  }

  // What lives when all is over, by address.
  std::map<int64_t, const PlacedEvent*> LiveBlocks() const {
    std::map<int64_t, const PlacedEvent*> live;
    for (const PlacedEvent& event : run_.events) {
      if (event.action == PlacedEvent::Action::kAlloc) live[event.address] = &event;
      if (event.action == PlacedEvent::Action::kFree) live.erase(event.address);
    }
    return live;
  }

  void WriteSegments() {
    const std::map<int64_t, const PlacedEvent*> live = LiveBlocks();
    pickle_.Text("segments").BeginList();
    for (const PlacedSegment& segment : run_.segments) {
      std::vector<const PlacedEvent*> blocks;
      const auto end = live.lower_bound(segment.address + segment.bytes);
      for (auto block = live.lower_bound(segment.address); block != end; ++block) {
        blocks.push_back(block->second);
      }
      WriteSegment(segment, blocks);
    }
    pickle_.EndList();
  }

  void WriteSegment(const PlacedSegment& segment, const std::vector<const PlacedEvent*>& blocks) {
    int64_t allocated = 0;
    int64_t requested = 0;
    for (const PlacedEvent* block : blocks) {
      allocated += block->bytes;
      requested += RequestedOf(block->buffer);
    }
    pickle_.BeginDict()
        .Item("device", int64_t{0})
        .Item("address", segment.address)
        .Item("total_size", segment.bytes)
        .Item("allocated_size", allocated)
        .Item("active_size", allocated)
        .Item("requested_size", requested)
        .Item("stream", int64_t{segment.stream})
        .Item("segment_type", segment.is_small ? "small" : "large");
    pickle_.Text("segment_pool_id").BeginTuple().Integer(0).Integer(0).EndTuple();
    pickle_.Text("is_expandable").Switch(segment.is_expandable);
    pickle_.Text("frames").BeginList().EndList();
    pickle_.Text("blocks").BeginList();
    WriteBlocks(segment, blocks);
    pickle_.EndList().EndDict();
  }

  // Those that live, and the free ones between them.
  void WriteBlocks(const PlacedSegment& segment, const std::vector<const PlacedEvent*>& blocks) {
    int64_t at = segment.address;
    for (const PlacedEvent* block : blocks) {
      WriteFree(at, block->address);
      pickle_.BeginDict()
          .Item("address", block->address)
          .Item("size", block->bytes)
          .Item("requested_size", RequestedOf(block->buffer))
          .Item("state", "active_allocated");
      WriteFrames(block->moment.at, block->buffer);
      pickle_.EndDict();
      at = block->address + block->bytes;
    }
    WriteFree(at, segment.address + segment.bytes);
  }

  void WriteFree(int64_t from, int64_t to) {
    if (from >= to) return;
    pickle_.BeginDict()
        .Item("address", from)
        .Item("size", to - from)
        .Item("requested_size", int64_t{0})
        .Item("state", "inactive");
    WriteFrames(-1, -1);
    pickle_.EndDict();
  }

  const Trace& trace_;
  const PlacedRun run_;
  const std::vector<std::vector<CallFrame>> frames_;
  PickleWriter pickle_;
};

}  // namespace

std::string ToMemorySnapshot(const Prediction& prediction) {
  return SnapshotWriter(prediction).Write();
}

}  // namespace onnxfit

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/snapshot/memory_snapshot.h"
#include "estimator/snapshot/pickle_reader.h"
#include "estimator/snapshot/python_frames.h"

namespace onnxfit {
namespace {

constexpr char kHowToDump[] = "torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")";

// More than any card has; sums of as many as a file can name stay below 2^63.
constexpr int64_t kMostSnapshotBytes = int64_t{1} << 50;
constexpr int64_t kMostDevices = 1024;

// The fields of a snapshot's values, checked as they are read.
class Fields {
 public:
  explicit Fields(const PickleValues& values) : values_(values) {}

  [[noreturn]] void Refuse(PickleId id, const std::string& what,
                           const std::string& hint = "") const {
    throw Error(
        {.where = fmt::format("byte {}", values_.At(id).at),
         .text = fmt::format("{} was expected, found {}", what, ToString(values_.TypeOf(id))),
         .hint = hint});
  }

  void Expect(PickleId id, PickleType type, std::string_view what) const {
    if (values_.TypeOf(id) != type) Refuse(id, fmt::format("{} ({})", ToString(type), what));
  }

  PickleId Of(PickleId dict, std::string_view key) const {
    Expect(dict, PickleType::kDict, fmt::format("with '{}'", key));
    const PickleId value = values_.Find(dict, key);
    if (value != kNoPickle) return value;
    throw Error({.where = fmt::format("byte {}", values_.At(dict).at),
                 .text = fmt::format("a dict with '{}' was expected, found one without", key),
                 .hint = kHowToDump});
  }

  const std::vector<PickleId>& ListOf(PickleId dict, std::string_view key) const {
    const PickleId list = Of(dict, key);
    Expect(list, PickleType::kList, key);
    return values_.ItemsOf(list);
  }

  std::string_view TextOf(PickleId dict, std::string_view key) const {
    const PickleId text = Of(dict, key);
    Expect(text, PickleType::kText, key);
    return values_.TextOf(text);
  }

  int64_t IntegerOf(PickleId dict, std::string_view key) const {
    const PickleId number = Of(dict, key);
    Expect(number, PickleType::kInteger, key);
    return values_.At(number).value;
  }

  int64_t BytesOf(PickleId dict, std::string_view key) const {
    const int64_t bytes = IntegerOf(dict, key);
    if (bytes >= 0 && bytes <= kMostSnapshotBytes) return bytes;
    throw Error({.where = fmt::format("byte {}", values_.At(Of(dict, key)).at),
                 .text = fmt::format("a number of bytes ({}) was expected, found {}", key, bytes)});
  }

 private:
  const PickleValues& values_;
};

// Frames and stacks, each kept once: events of one line share theirs.
class StackReader {
 public:
  StackReader(const PickleValues& values, MemorySnapshot& snapshot)
      : values_(values), fields_(values), snapshot_(snapshot) {
    stacks_.emplace(std::make_pair(std::vector<FrameId>(), false), 0);
  }

  // Of a block or an event; 0 where it has no frames.
  StackId StackOf(PickleId dict) {
    const PickleId list = values_.Find(dict, "frames");
    if (list == kNoPickle || values_.TypeOf(list) == PickleType::kNone) return 0;
    fields_.Expect(list, PickleType::kList, "frames");
    const auto [known, is_new] = by_list_.emplace(list, 0);
    if (is_new) known->second = Read(values_.ItemsOf(list));
    return known->second;
  }

 private:
  // What is of C++ says whether autograd asked, and no more.
  static constexpr FrameId kOfEngine = -1;
  static constexpr FrameId kOfCpp = -2;

  StackId Read(const std::vector<PickleId>& frames) {
    SnapshotStack stack;
    for (const PickleId frame : frames) {
      const FrameId id = FrameOf(frame);
      if (id >= 0) stack.frames.push_back(id);
      stack.is_backward |= id == kOfEngine;
    }
    const auto next = static_cast<StackId>(snapshot_.stacks.size());
    const auto [known, is_new] =
        stacks_.emplace(std::make_pair(stack.frames, stack.is_backward), next);
    if (is_new) snapshot_.stacks.push_back(std::move(stack));
    return known->second;
  }

  FrameId FrameOf(PickleId dict) {
    const auto [known, is_new] = by_dict_.emplace(dict, kOfCpp);
    if (is_new) known->second = ReadFrame(dict);
    return known->second;
  }

  FrameId ReadFrame(PickleId dict) {
    const std::string_view function = fields_.TextOf(dict, "name");
    const std::string_view file = fields_.TextOf(dict, "filename");
    if (!IsPythonFile(file)) {
      return function.find("torch::autograd::Engine") != function.npos ? kOfEngine : kOfCpp;
    }
    SnapshotFrame frame = {.function = std::string(function),
                           .file = std::string(file),
                           .line = fields_.IntegerOf(dict, "line")};
    const auto [known, is_new] =
        frames_.emplace(std::make_tuple(frame.file, frame.line, frame.function),
                        static_cast<FrameId>(snapshot_.frames.size()));
    if (is_new) snapshot_.frames.push_back(std::move(frame));
    return known->second;
  }

  const PickleValues& values_;
  const Fields fields_;
  MemorySnapshot& snapshot_;
  std::unordered_map<PickleId, StackId> by_list_;
  std::unordered_map<PickleId, FrameId> by_dict_;
  std::map<std::pair<std::vector<FrameId>, bool>, StackId> stacks_;
  std::map<std::tuple<std::string, int64_t, std::string>, FrameId> frames_;
};

class SnapshotReader {
 public:
  explicit SnapshotReader(const PickleValues& values)
      : values_(values), fields_(values), stacks_(values, snapshot_) {}

  MemorySnapshot Read() {
    const bool is_list = values_.TypeOf(values_.root) == PickleType::kList;
    if (!is_list && values_.TypeOf(values_.root) != PickleType::kDict) {
      fields_.Refuse(values_.root, "a memory snapshot, which is a dict with 'segments',",
                     kHowToDump);
    }
    static const std::vector<PickleId> kNoTraces;
    const std::vector<PickleId>& segments =
        is_list ? values_.ItemsOf(values_.root) : fields_.ListOf(values_.root, "segments");
    const std::vector<PickleId>& traces =
        is_list ? kNoTraces : fields_.ListOf(values_.root, "device_traces");
    ChooseDevice(segments, traces);
    for (const PickleId segment : segments) {
      if (DeviceOf(segment) == snapshot_.device) ReadSegment(segment);
    }
    if (Index(snapshot_.device) < traces.size()) ReadEvents(traces[Index(snapshot_.device)]);
    return std::move(snapshot_);
  }

 private:
  int64_t DeviceOf(PickleId segment) const {
    const int64_t device = fields_.IntegerOf(segment, "device");
    if (device >= 0 && device < kMostDevices) return device;
    throw Error({.where = fmt::format("byte {}", values_.At(segment).at),
                 .text = fmt::format("a segment of device 0 to {} was expected, found {}",
                                     kMostDevices - 1, device)});
  }

  void ChooseDevice(const std::vector<PickleId>& segments, const std::vector<PickleId>& traces) {
    std::map<int64_t, std::pair<int64_t, size_t>> sizes;  // reserved bytes, events
    for (const PickleId segment : segments) {
      sizes[DeviceOf(segment)].first += fields_.BytesOf(segment, "total_size");
    }
    for (size_t i = 0; i < std::min(traces.size(), Index(kMostDevices)); ++i) {
      fields_.Expect(traces[i], PickleType::kList, "device_traces");
      const size_t events = values_.ItemsOf(traces[i]).size();
      if (events > 0) sizes[static_cast<int64_t>(i)].second = events;
    }
    if (sizes.empty()) return;
    const auto most =
        std::max_element(sizes.begin(), sizes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    snapshot_.device = most->first;
    snapshot_.devices = static_cast<int64_t>(sizes.size());
  }

  // Each value of a file is one place of it: what a hostile one names again and again is refused.
  void CheckOnce(PickleId id, std::string_view what) {
    if (seen_.insert(id).second) return;
    throw Error({.where = fmt::format("byte {}", values_.At(id).at),
                 .text = fmt::format("{} of its own was expected, found one named twice", what)});
  }

  void ReadSegment(PickleId segment) {
    CheckOnce(segment, "a segment");
    CheckOnce(fields_.Of(segment, "blocks"), "a list of blocks");
    snapshot_.reserved_bytes += fields_.BytesOf(segment, "total_size");
    int64_t address = fields_.IntegerOf(segment, "address");
    for (const PickleId block : fields_.ListOf(segment, "blocks")) {
      fields_.Expect(block, PickleType::kDict, "a block");
      ReadBlock(block, address);
    }
  }

  // PyTorch below 2.1 does not write a block's address and what was asked for.
  void ReadBlock(PickleId block, int64_t& address) {
    const int64_t bytes = fields_.BytesOf(block, "size");
    SnapshotBlock read = {.address = address, .bytes = bytes, .requested_bytes = bytes};
    if (values_.Find(block, "address") != kNoPickle) {
      read.address = fields_.IntegerOf(block, "address");
    }
    if (values_.Find(block, "requested_size") != kNoPickle) {
      read.requested_bytes = fields_.BytesOf(block, "requested_size");
    }
    address = std::min(read.address, std::numeric_limits<int64_t>::max() - bytes) + bytes;
    // "active_allocated"; "active_pending_free", which another stream still reads; "inactive".
    if (!fields_.TextOf(block, "state").starts_with("active")) return;
    read.stack = stacks_.StackOf(block);
    snapshot_.live.push_back(read);
  }

  void ReadEvents(PickleId trace) {
    const std::vector<PickleId>& events = values_.ItemsOf(trace);
    snapshot_.events.reserve(events.size());
    for (const PickleId event : events) ReadEvent(event);
  }

  // The names of CUDACachingAllocator.cpp's TraceEntry, as torch/csrc/cuda/memory_snapshot.cpp
  // writes them; "free_requested", "snapshot" and what later versions add move no memory.
  void ReadEvent(PickleId event) {
    using Action = SnapshotEvent::Action;
    static const std::map<std::string_view, Action> kActions = {{"alloc", Action::kAlloc},
                                                                {"free_completed", Action::kFree},
                                                                {"segment_alloc", Action::kReserve},
                                                                {"segment_map", Action::kReserve},
                                                                {"segment_free", Action::kRelease},
                                                                {"segment_unmap", Action::kRelease},
                                                                {"oom", Action::kOom}};
    const auto action = kActions.find(fields_.TextOf(event, "action"));
    if (action == kActions.end()) return;
    // One of "oom" says what is free in the place of an address.
    const bool has_address = values_.Find(event, "addr") != kNoPickle;
    snapshot_.events.push_back({.action = action->second,
                                .address = has_address ? fields_.IntegerOf(event, "addr") : 0,
                                .bytes = fields_.BytesOf(event, "size"),
                                .stack = stacks_.StackOf(event)});
  }

  const PickleValues& values_;
  const Fields fields_;
  MemorySnapshot snapshot_;
  StackReader stacks_;
  std::set<PickleId> seen_;
};

}  // namespace

MemorySnapshot ReadMemorySnapshot(std::string_view bytes) {
  const PickleValues values = ReadPickle(bytes);
  return SnapshotReader(values).Read();
}

}  // namespace onnxfit

// What PyTorch wrote down about its allocator on a card: the file of
// torch.cuda.memory._dump_snapshot, as plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

using FrameId = int32_t;  // index into MemorySnapshot::frames
using StackId = int32_t;  // index into MemorySnapshot::stacks; 0 is the empty one

// A line of Python on the way to an allocation.
struct SnapshotFrame {
  std::string function = {};  // "forward", "<module>"
  std::string file = {};      // as Python has it: "/home/me/train.py"
  int64_t line = 0;

  bool operator==(const SnapshotFrame&) const = default;
};

// Who asked for a block.
struct SnapshotStack {
  std::vector<FrameId> frames = {};  // of Python alone, innermost first
  bool is_backward = false;          // autograd's engine is among the frames of C++

  bool operator==(const SnapshotStack&) const = default;
};

struct SnapshotBlock {
  int64_t address = 0;
  int64_t bytes = 0;            // of the block
  int64_t requested_bytes = 0;  // of the tensor
  StackId stack = 0;
};

struct SnapshotEvent {
  enum class Action : uint8_t {
    kAlloc,    // bytes of a tensor
    kFree,     // the same, once it can be used again
    kReserve,  // a segment, or a page of one that grows
    kRelease,
    kOom,  // bytes that the card did not have
  };
  Action action = Action::kAlloc;
  int64_t address = 0;
  int64_t bytes = 0;
  StackId stack = 0;
};

struct MemorySnapshot {
  std::vector<SnapshotFrame> frames = {};
  std::vector<SnapshotStack> stacks = {SnapshotStack()};
  std::vector<SnapshotBlock> live = {};    // when it was taken, by segment
  int64_t reserved_bytes = 0;              // then
  std::vector<SnapshotEvent> events = {};  // before it; empty where no history was recorded
  int64_t device = 0;                      // CUDA's number of the card that all this is about
  int64_t devices = 1;                     // how many cards the file tells of
};

// `bytes` as _dump_snapshot writes them, or torch.cuda.memory_snapshot() pickled: a list of
// segments without history.  Of several cards the one with the most reserved memory, or else the
// most events. Throws Error that says at which byte what was expected and found.  O(bytes × log).
MemorySnapshot ReadMemorySnapshot(std::string_view bytes);

}  // namespace onnxfit

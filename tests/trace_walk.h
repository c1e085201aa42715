// A trace, walked event by event: what timeline.h and estimate.h say of it, found another way.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "estimator/memory/timeline.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

struct WalkedStep {
  Peak peak;
  int64_t allocations = 0;
  int64_t frees = 0;
};

struct Walk {
  std::vector<WalkedStep> steps = std::vector<WalkedStep>(1);  // [0] is setup
  int64_t peak_reserved = 0;
  int64_t peak_allocated = 0;

  // At the first instant of the largest allocated.
  int64_t exact_there = 0;
  std::array<int64_t, kKinds> by_kind = {};
  int32_t step = 0;
  Phase phase = Phase::kSetup;
  std::string at;  // the operator that runs, "" for none
};

// Through `Allocator`: that of the product, or the tests' slow one.
template <typename Allocator>
class TraceWalker {
 public:
  TraceWalker(const Trace& trace, Allocator& allocator)
      : trace_(trace), allocator_(allocator), kinds_(trace.buffers.size()) {}

  Walk Run() {
    for (const Event& event : trace_.events) {
      Apply(event);
      Note();
    }
    return walk_;
  }

 private:
  int64_t BytesOf(const Event& event) const {
    return trace_.buffers[static_cast<size_t>(event.id)].bytes;
  }

  void Apply(const Event& event) {
    switch (event.type) {
      case Event::Type::kPhase:
        if (event.id != step_) walk_.steps.emplace_back();
        step_ = event.id;
        phase_ = event.phase;
        at_ = "";
        break;
      case Event::Type::kAt:
        at_ = event.id < 0 ? "" : trace_.labels[static_cast<size_t>(event.id)];
        break;
      case Event::Type::kAlloc:
        if (!allocator_.Alloc(event.id, BytesOf(event))) throw std::bad_alloc();
        ++walk_.steps.back().allocations;
        Hold(event, event.kind);
        break;
      case Event::Type::kKind:
        Drop(event);
        Hold(event, event.kind);
        break;
      case Event::Type::kFree:
        allocator_.Free(event.id);
        ++walk_.steps.back().frees;
        Drop(event);
        break;
    }
  }

  void Hold(const Event& event, Kind kind) {
    kinds_[static_cast<size_t>(event.id)] = kind;
    held_[static_cast<size_t>(kind)] += BytesOf(event);
  }

  void Drop(const Event& event) {
    held_[static_cast<size_t>(kinds_[static_cast<size_t>(event.id)])] -= BytesOf(event);
  }

  void Note() {
    const AllocatorStats now = allocator_.stats();
    Peak& peak = walk_.steps.back().peak;
    peak.exact_bytes = std::max(peak.exact_bytes, now.requested_bytes);
    peak.allocated_bytes = std::max(peak.allocated_bytes, now.allocated_bytes);
    peak.reserved_bytes = std::max(peak.reserved_bytes, now.reserved_bytes);
    walk_.peak_reserved = std::max(walk_.peak_reserved, now.reserved_bytes);
    if (now.allocated_bytes <= walk_.peak_allocated) return;
    walk_.peak_allocated = now.allocated_bytes;
    walk_.exact_there = now.requested_bytes;
    walk_.by_kind = held_;
    walk_.step = step_;
    walk_.phase = phase_;
    walk_.at = at_;
  }

  const Trace& trace_;
  Allocator& allocator_;
  std::vector<Kind> kinds_;  // by BufferId
  std::array<int64_t, kKinds> held_ = {};
  Walk walk_;
  int32_t step_ = 0;
  Phase phase_ = Phase::kSetup;
  std::string at_;
};

template <typename Allocator>
Walk WalkTrace(const Trace& trace, Allocator& allocator) {
  return TraceWalker<Allocator>(trace, allocator).Run();
}

}  // namespace onnxfit

// Traces written by hand.
#pragma once

#include <string>

#include "estimator/memory/trace.h"

namespace onnxfit {

// Writes a trace by hand, one word an event.
class TraceWriter {
 public:
  TraceWriter& Enter(int32_t step, Phase phase) {
    trace_.events.push_back({.type = Event::Type::kPhase, .phase = phase, .id = step});
    return *this;
  }

  TraceWriter& At(const std::string& where) {
    trace_.events.push_back({.type = Event::Type::kAt, .id = Label(where)});
    return *this;
  }

  TraceWriter& Alloc(const std::string& name, int64_t bytes, Kind kind) {
    trace_.buffers.push_back(
        {.bytes = bytes, .label = Label(name), .dtype = DType::kUint8, .dims = {bytes}});
    trace_.events.push_back({.type = Event::Type::kAlloc, .kind = kind, .id = Last()});
    return *this;
  }

  TraceWriter& Free(BufferId id) {
    trace_.events.push_back({.type = Event::Type::kFree, .id = id});
    return *this;
  }

  TraceWriter& Becomes(BufferId id, Kind kind) {
    trace_.events.push_back({.type = Event::Type::kKind, .kind = kind, .id = id});
    return *this;
  }

  const Trace& trace() const { return trace_; }

 private:
  int32_t Label(const std::string& text) {
    trace_.labels.push_back(text);
    return static_cast<int32_t>(trace_.labels.size()) - 1;
  }
  BufferId Last() const { return static_cast<BufferId>(trace_.buffers.size()) - 1; }

  Trace trace_;
};

// Two steps; the peak is in the first one's backward, when g is made.
inline Trace TwoSteps() {
  TraceWriter writer;
  writer.Enter(0, Phase::kSetup).Alloc("w", 1000, Kind::kParameter);
  writer.Enter(1, Phase::kForward).At("relu").Alloc("h", 3000, Kind::kTemporary);
  writer.Becomes(1, Kind::kActivation);
  writer.Enter(1, Phase::kBackward).At("relu").Alloc("w.grad", 1000, Kind::kTemporary);
  writer.Free(1).Becomes(2, Kind::kGradient);
  writer.Enter(1, Phase::kOptimizer).Alloc("m", 1000, Kind::kOptimizerState);
  writer.Enter(2, Phase::kForward).Free(2);
  return writer.trace();
}

}  // namespace onnxfit

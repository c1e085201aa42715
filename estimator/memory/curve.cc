#include "estimator/memory/curve.h"

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/memory/endless_card.h"

namespace onnxfit {
namespace {

// What a phase of the step has of the curve.
struct PhaseShare {
  size_t operators = 0;
  size_t slices = 0;
};

bool BeginsPhase(const Event& event, int32_t step) {
  return event.type == Event::Type::kPhase && event.id == step;
}

// How many operators each phase of the step has, in order.
std::vector<PhaseShare> PhasesOf(const Trace& trace, int32_t step) {
  std::vector<PhaseShare> phases;
  bool is_inside = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) is_inside = event.id == step;
    if (!is_inside) continue;
    if (event.type == Event::Type::kPhase) phases.emplace_back();
    if (event.type == Event::Type::kAt) ++phases.back().operators;
  }
  return phases;
}

// A slice each, and the rest by operators.
void ShareOut(std::vector<PhaseShare>& phases, size_t most) {
  size_t operators = 0;
  for (const PhaseShare& phase : phases) operators += phase.operators;
  const size_t rest = most > phases.size() ? most - phases.size() : 0;
  for (PhaseShare& phase : phases) {
    const size_t share = operators == 0 ? 0 : rest * phase.operators / operators;
    phase.slices = std::max<size_t>(1, std::min(phase.operators, 1 + share));
  }
}

// Leaves `most` at most: of neighbours that join, the highest.
void JoinPoints(size_t most, std::vector<CurvePoint>& points) {
  if (points.size() <= most) return;
  const auto at = [&](size_t i) {
    return points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / most);
  };
  std::vector<CurvePoint> joined;
  for (size_t i = 0; i < most; ++i) {
    joined.push_back(*std::ranges::max_element(at(i), at(i + 1), {}, &CurvePoint::allocated_bytes));
  }
  points = std::move(joined);
}

class CurveReader {
 public:
  CurveReader(const Trace& trace, int32_t step, size_t most, const AllocatorConf& conf)
      : trace_(trace),
        card_(conf),
        kinds_(trace.buffers.size()),
        most_(most),
        phases_(PhasesOf(trace, step)) {
    curve_.step = step;
    ShareOut(phases_, most);
  }

  Curve Read() {
    for (size_t i = 0; i < trace_.events.size(); ++i) {
      if (trace_.EmptiesCacheAt(i)) card_.EmptyCache();
      Follow(trace_.events[i]);
    }
    JoinPoints(most_, curve_.points);
    const auto peak = std::ranges::max_element(curve_.points, {}, &CurvePoint::allocated_bytes);
    curve_.peak = static_cast<size_t>(peak - curve_.points.begin());
    return std::move(curve_);
  }

 private:
  void Follow(const Event& event) {
    const size_t buffer = event.id < 0 ? 0 : Index(event.id);
    switch (event.type) {
      case Event::Type::kAlloc:
        kinds_[buffer] = event.kind;
        bytes_[Index(event.kind)] += trace_.buffers[buffer].bytes;
        card_.Alloc(event.id, trace_.buffers[buffer]);
        break;
      case Event::Type::kFree:
        bytes_[Index(kinds_[buffer])] -= trace_.buffers[buffer].bytes;
        card_.Free(event.id);
        break;
      case Event::Type::kKind:
        bytes_[Index(kinds_[buffer])] -= trace_.buffers[buffer].bytes;
        kinds_[buffer] = event.kind;
        bytes_[Index(event.kind)] += trace_.buffers[buffer].bytes;
        break;
      case Event::Type::kPhase:
        EnterPhase(event);
        break;
      case Event::Type::kAt:
        EnterOperator(event.id);
        break;
    }
    if (is_inside_) Note();
  }

  void EnterPhase(const Event& event) {
    is_inside_ = BeginsPhase(event, curve_.step);
    at_ = -1;
    if (!is_inside_) return;
    phase_ = event.phase;
    operators_ = 0;
    ++entered_;
    curve_.points.push_back(Now());
  }

  void EnterOperator(int32_t label) {
    at_ = label;
    if (!is_inside_) return;
    const PhaseShare& share = phases_[entered_ - 1];
    const size_t slice = operators_ * share.slices / share.operators;
    const size_t before = operators_ == 0 ? 0 : (operators_ - 1) * share.slices / share.operators;
    ++operators_;
    if (slice != before) curve_.points.push_back(Now());
  }

  void Note() {
    if (card_.stats().allocated_bytes > curve_.points.back().allocated_bytes) {
      curve_.points.back() = Now();
    }
  }

  CurvePoint Now() const {
    const AllocatorStats stats = card_.stats();
    return {.phase = phase_,
            .at = at_,
            .bytes = bytes_,
            .allocated_bytes = stats.allocated_bytes,
            .reserved_bytes = stats.reserved_bytes};
  }

  static size_t Index(Kind kind) { return static_cast<size_t>(kind); }
  static size_t Index(int32_t id) { return onnxfit::Index(id); }

  const Trace& trace_;
  EndlessCard card_;
  std::vector<Kind> kinds_;  // by BufferId
  const size_t most_;
  std::vector<PhaseShare> phases_;
  Curve curve_;
  std::array<int64_t, kKinds> bytes_ = {};
  bool is_inside_ = false;  // the step
  Phase phase_ = Phase::kSetup;
  int32_t at_ = -1;
  size_t operators_ = 0;  // that have begun in the phase
  size_t entered_ = 0;    // phases of the step
};

}  // namespace

std::vector<size_t> Curve::PhaseStarts() const {
  std::vector<size_t> starts;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == 0 || points[i].phase != points[i - 1].phase) starts.push_back(i);
  }
  return starts;
}

Curve ReadCurve(const Trace& trace, int32_t step, size_t most, const AllocatorConf& conf) {
  return CurveReader(trace, step, most, conf).Read();
}

}  // namespace onnxfit

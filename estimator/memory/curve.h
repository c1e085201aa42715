// What is held over one step, in few enough instants to be drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/memory/allocator_conf.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

struct CurvePoint {
  Phase phase = Phase::kSetup;
  int32_t at = -1;                         // label of the operator that runs, -1 between operators
  std::array<int64_t, kKinds> bytes = {};  // by what holds them; they add up to exact bytes
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
};

struct Curve {
  int32_t step = 0;
  std::vector<CurvePoint> points;
  size_t peak = 0;  // which of them has the largest allocated_bytes, the first of equals

  // The first point of each phase that the step has, in order.
  std::vector<size_t> PhaseStarts() const;
};

// Step `step` of `trace`, cut into at most `most` slices of as many operators each; the optimizer's
// foreach kernels count one by one.  A phase has a slice at least, and none has parts of two, but
// where there are more phases than `most`.  Of a slice the instant counts at which the most is
// allocated, so that no peak is lost.  REQUIRES: most > 0.  O(events × log).
Curve ReadCurve(const Trace& trace, int32_t step, size_t most, const AllocatorConf& conf = {});

}  // namespace onnxfit

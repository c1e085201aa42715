// Pictures for a terminal: memory over a step in block letters, and the model as a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// How many points of a curve a terminal shows; what --timeline asks the estimate for.
inline constexpr size_t kTerminalPoints = 66;

// A name below the drawing, where something begins.
struct TimelineMark {
  size_t point = 0;
  std::string name;
};

// Bytes over time, in as many points as are drawn.
struct TimelinePlot {
  std::string title = {};
  std::string staying = {};                 // what of it stays, in words
  std::vector<int64_t> bytes = {};          // by point
  std::vector<int64_t> staying_bytes = {};  // of them
  std::vector<TimelineMark> marks = {};     // in order
  size_t peak = 0;                          // the point with the most
  std::string peak_at = {};                 // what ran there, "" where nobody says
};

// Ten lines high, what stays apart from the rest, its marks and its peak named below.  At most 80
// columns wide.  "" without points.  REQUIRES: bytes and staying_bytes are as many.
std::string TimelineText(const TimelinePlot& plot, const TextOptions& options);

// What is allocated over the step of the peak: ten lines high, what stays from step to step apart
// from the rest, its phases and its peak named below.  At most 80 columns wide.  "" without a
// curve.
std::string TimelineText(const Estimate& estimate, const TextOptions& options);

// Modules by their place in the model: parameters, what their tensors, gradients and states take,
// what they have made that is alive at the peak, their share of it.  Neighbours with a number that
// take the same are one line; those below a hundredth of the peak are left out, but with
// options.verbose.  At most 80 columns wide.  "" without modules.
std::string TreeText(const Estimate& estimate, const TextOptions& options);

}  // namespace onnxfit

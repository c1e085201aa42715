// Which steps of two forwards are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "estimator/observed/skeletons.h"

namespace onnxfit {

struct Alignment {
  std::vector<int32_t> places;  // by step of what is known: that of the file, -1 without one
  std::vector<int32_t> known;   // by step of the file: that of what is known, -1 without one
  size_t same = 0;              // how many have one
  size_t alike = 0;             // of these: not of another class, nor of another line
};

// The longest series of steps that both have in that order: those of the same line rather than
// others, where both say lines.  Nothing is the same beyond 16 million pairs of steps that differ.
// O(steps) where all are the same, else O(steps × steps).
Alignment Align(const std::vector<SkeletonStep>& known, const std::vector<SkeletonStep>& file);

}  // namespace onnxfit

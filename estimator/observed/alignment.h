// Which steps of two forwards are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
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

// The same, once for forwards that Align cannot tell apart: many classes, and most of what was
// watched of one, make the same steps.
class Alignments {
 public:
  // As Align.  `shape`: the same number for files with the same steps.  O(steps) where it is known.
  const Alignment& Of(const std::vector<SkeletonStep>& known, const std::vector<SkeletonStep>& file,
                      uint32_t shape);

 private:
  // What Align looks at of a step.
  using Looks = std::tuple<bool, std::string_view, std::string_view, std::string_view, uint32_t>;

  std::map<Looks, uint32_t> numbers_;
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, Alignment> known_;  // by shape, by numbers
};

}  // namespace onnxfit

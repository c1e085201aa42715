// What lies upon what in a picture of memory over a step.  Internal to the room picture/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/fit/estimate.h"

namespace onnxfit {

// One layer over all points: what CUDA keeps, one kind of tensors, or what rounding adds.
struct Layer {
  std::string_view kind;       // the JSON's word, which its colour goes by
  std::vector<int64_t> bytes;  // by point
};

// From the bottom up: context, what stays from step to step, what comes and goes.  Together they
// are what is allocated and the context; those that are empty throughout are left out.
std::vector<Layer> LayersOf(const Estimate& estimate);

// What is reserved and the context, by point.
std::vector<int64_t> ReservedOnDevice(const Estimate& estimate);

// What is allocated and the context, by point.
std::vector<int64_t> AllocatedOnDevice(const Estimate& estimate);

// Ticks of an axis of bytes from 0: two to six round sizes, the last not below `most`.
std::vector<int64_t> ByteTicks(int64_t most);

// "2.5 GiB", "512 MiB": no zeros behind the point.
std::string TickText(int64_t bytes);

// The outline of `heights` (0 to `height`) as steps of width 1, closed at the bottom: a path of SVG
// in a box of heights.size() × `height`, y down.
std::string AreaPath(std::span<const int64_t> heights, int64_t height);

// The same, open: a line.
std::string LinePath(std::span<const int64_t> heights, int64_t height);

}  // namespace onnxfit

// What cuDNN asks for in a layer at other sizes, carried over to the size at hand.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

struct BatchWorkspace {
  int64_t batch = 0;
  int64_t bytes = 0;

  bool operator==(const BatchWorkspace&) const = default;
};

// A layer at one size of its pictures, or of what else its dimensions are.
struct SizedLayer {
  Dims input = {};  // behind the channels
  Dims output = {};
  std::vector<BatchWorkspace> batches = {};

  bool operator==(const SizedLayer&) const = default;
};

// At its batch, from others of the very layer.  As at the nearest, by ratio: copies of the same
// tensors, or nothing; copies and beside them as many parts of the weight, which are summed up.
// Where that one asks for anything else, copies as at the next; else on the line through both.
// Before all, what a closed form has, `formed`, where any of them asks for such copies.  How often
// each is right: benchmarks/convolutions/README.md.  REQUIRES: one at least.
int64_t AtBatch(const Convolution& convolution, std::vector<BatchWorkspace> known,
                std::optional<int64_t> formed = std::nullopt);

// From other sizes of its pictures: as at the one whose output has as many elements, so carried
// over, in proportion where it is no copies.  Nullopt where there is no other, or those of groups
// ask for anything but copies.
std::optional<int64_t> AtSize(const Convolution& convolution, const std::vector<SizedLayer>& known);

}  // namespace onnxfit

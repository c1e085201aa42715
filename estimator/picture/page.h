// `onnxfit report`: one HTML file that shows an estimate.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/fit/sweep.h"

namespace onnxfit {

// How many points of a curve a page shows, and how many of the tensors at the peak.
inline constexpr size_t kPagePoints = 300;
inline constexpr size_t kPageTensors = 24;

// Batches to be drawn beside `batch`: some below it and some above, itself among them, in order.
std::vector<int64_t> BatchesAround(int64_t batch);

struct PageContent {
  Estimate estimate;                        // with its curve and modules
  std::optional<SweepAnswer> batches = {};  // the same run at other batches
  std::string version = {};                 // of onnxfit
};

// The page: complete in one file, with no network, readable without its script, which adds what a
// pointer or a keyboard asks for.  Its numbers stand in it once more as JSON, in an element with
// the id "data": what `estimate --format json` prints, with "batches".
// REQUIRES: content.estimate.curve.
std::string ToHtml(const PageContent& content);

}  // namespace onnxfit

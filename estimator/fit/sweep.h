// Tables: an answer for each combination of batches, dimensions, precisions and optimizers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

inline constexpr int64_t kMostCombinations = 10'000;  // of a table

struct SweptDim {
  std::string name;
  std::vector<int64_t> sizes;

  bool operator==(const SweptDim&) const = default;
};

// What varies, each list as typed; an empty one does not vary, and has the request's value.
struct Sweep {
  std::vector<int64_t> batches = {};
  std::vector<SweptDim> dims = {};
  std::vector<Precision> precisions = {};
  std::vector<Optimizer> optimizers = {};

  bool empty() const {
    return batches.empty() && dims.empty() && precisions.empty() && optimizers.empty();
  }
};

// How many there are; nullopt where 63 bits do not hold it.  1 for an empty sweep.
std::optional<int64_t> CountCombinations(const Sweep& sweep);

// `request` once for each combination.  Batches change slowest, then dimensions as typed, then
// precisions; optimizers change from row to row.  Details and `why`, which are about one run,
// are taken off.  REQUIRES: CountCombinations(sweep) <= kMostCombinations.
std::vector<EstimateRequest> Combinations(const EstimateRequest& request, const Sweep& sweep);

struct SweepRow {
  EstimateRequest request;
  std::optional<Estimate> estimate = {};  // absent where the combination has no answer
  std::string error = {};                 // why, if so
};

struct SweepAnswer {
  std::string model;  // its path
  Sweep sweep;
  std::vector<SweepRow> rows;  // in the order of Combinations()
};

// Answers all combinations, with `largest` of the largest tensors each and without places: a
// table of thousands would hold gigabytes of them.  A combination that cannot be answered is a row
// that says why. Throws the first row's Error where none can.  Takes as long as each answer alone,
// on all processors; what it gives does not depend on how many there are.  `answered` is told how
// many are done, from any of several threads.
SweepAnswer RunSweep(const Study& study, const EstimateRequest& request, const Sweep& sweep,
                     size_t largest, const std::function<void(size_t)>& answered = {});

// A table in a line.
struct SweepSummary {
  size_t answered = 0;                  // rows with an estimate
  int64_t low_bytes = 0;                // the smallest device_bytes of them
  int64_t high_bytes = 0;               // the largest
  std::array<size_t, 3> verdicts = {};  // by Verdict, over all rows and their targets
};
SweepSummary Summarize(const SweepAnswer& answer);

}  // namespace onnxfit

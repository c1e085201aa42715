// The size of a run that a search looks for: the batch, or another that a request has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/study.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

inline constexpr int64_t kMostBatch = int64_t{1} << 40;  // beyond, sizes overflow first

struct SolvedSize {
  std::string name = {};  // for sentences: "the batch", "seq"
  // Asks for so many units of it.
  std::function<void(EstimateRequest&, int64_t)> set = {};
  int64_t unit = 1;                   // a search counts in these
  std::optional<int64_t> asked = {};  // that the request has
  int64_t least = 1;                  // units that the model takes
  int64_t most = kMostBatch - 1;      // units that are looked at
  bool may_end = false;               // an Error says that the model does not take that size
};

// `request`, whose batch is `from`, with the batch `to`.  Inputs that are bound as a whole
// (--shape) follow it: the file's first, and those with that batch where it is not 1.
void SetBatch(const Graph& file, int64_t from, int64_t to, EstimateRequest& request);

// The batch of `request`.  `study` must outlive it.
SolvedSize BatchOf(const Study& study, const EstimateRequest& request);

// What --solve takes for `request`: dimensions that `file` leaves free beside the batch, "image"
// for height and width together, "rank" beside --lora.
std::vector<std::string> SolvableNames(const Graph& file, const EstimateRequest& request);

// The one of that name, in multiples of `unit`, by default 32 of an image and 1 of all others.
// Throws Error where it is none of these, or where `request` says it already.
SolvedSize SizeNamed(const std::string& name, std::optional<int64_t> unit, const Study& study,
                     const EstimateRequest& request);

}  // namespace onnxfit

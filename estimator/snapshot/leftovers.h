// What the run on the card kept that the prediction does not, and the other way round.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/fit/why.h"
#include "estimator/memory/trace.h"
#include "estimator/snapshot/story.h"

namespace onnxfit {

struct Prediction;

// Predicted buffers of one name and size that the run does not have.
struct MissingGroup {
  std::string name = {};
  Kind kind = Kind::kTemporary;
  int64_t bytes = 0;  // of one
  int64_t count = 0;

  int64_t total_bytes() const { return bytes * count; }
};

struct Leftovers {
  std::vector<LineGroup> kept = {};        // by the run alone; the most bytes first
  std::vector<MissingGroup> missing = {};  // by the prediction alone; the most bytes first
  int64_t run_bytes = 0;                   // that lived at the run's moment
  int64_t kept_bytes = 0;                  // of them, by the run alone
  int64_t predicted_bytes = 0;             // that live at the predicted moment
  int64_t missing_bytes = 0;               // of them, by the prediction alone
  int64_t predicted_peak_bytes = 0;
  Instant moment = {};  // of the prediction
};

// Compares what lives at the run's moment with the moment of the prediction that is most like it:
// the one with the least bytes that one of the two has alone, what grows left aside.  Allocations
// are matched by their bytes as PyTorch rounds them (to 512) and, of those that are equal, by the
// source lines that both name, then by phase, then by bytes alone; what grows is matched last.
// Throws Error where sums need more than 63 bits. O((blocks + predicted events) × log × depth of
// stacks).
Leftovers FindLeftovers(const RunStory& story, const Prediction& prediction);

}  // namespace onnxfit

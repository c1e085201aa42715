// How long the batches of a run are, step by step: a list, or drawn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace onnxfit {

// One way to say it; `list` goes before the rest.
struct LengthSource {
  enum class Kind : uint8_t { kUniform, kLogNormal, kList };
  Kind kind = Kind::kUniform;
  int64_t least = 1;
  int64_t most = 1;
  int64_t stride = 1;              // uniform: lengths are `least`, and so many more each
  double median = 1;               // log-normal: half are shorter,
  double sigma = 1;                // and the logarithm's standard deviation
  std::vector<int64_t> list = {};  // taken in turn, again and again
};

// "uniform:64..512", "uniform:64..512/8", "lognormal:180,0.6,1024" (median, sigma, the longest), or
// a file of whole numbers, one a step, with spaces, commas, brackets or newlines between them.
// Throws Error where it is none of these: what was expected.
LengthSource ReadLengths(const std::string& text);

// What is asked of them.
struct LengthOptions {
  LengthSource source = {};
  std::string dim = {};     // of the model; "" where it has one that is free
  int64_t steps = 500;      // of a run
  int64_t seeds = 5;        // runs, each with lengths of its own; a list has one
  uint64_t first_seed = 0;  // the others follow
  bool of_samples = false;  // a batch is as long as the longest of its samples
  int64_t pad_to = 1;       // lengths are rounded up to a multiple
  int64_t samples = 0;      // of an epoch, whose last batch has what is left; 0: all are whole
  int64_t tokens = 0;       // of a batch, which has as many samples as these have room for; 0: as
                            // many as the run's
};

// What the batch of a step has.
struct StepShape {
  int64_t batch = 0;
  int64_t length = 0;

  int64_t tokens() const { return batch * length; }
  bool operator==(const StepShape&) const = default;
  bool operator<(const StepShape& other) const {
    return std::pair(batch, length) < std::pair(other.batch, other.length);
  }
};

// The steps of a run, with `batch` samples each unless `options` say otherwise.
std::vector<StepShape> DrawSteps(const LengthOptions& options, int64_t batch, uint64_t seed);

}  // namespace onnxfit

// The largest batch that a card trains, safely.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/fit/remarks.h"
#include "estimator/fit/solved_size.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verdict.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// A safe batch N stands for all from N - reach to N + reach.
constexpr int64_t ReachOf(int64_t batch) { return batch / 50; }

// Of more than about 128 batches in a row, as many that lie evenly are looked at.
constexpr int64_t StrideOver(int64_t batches) { return batches > 128 ? batches / 128 : 1; }

// How much of an answer is asked for.
enum class BatchDetail : uint8_t {
  kBatch,     // the batch and its verdict
  kHeadline,  // and the largest that fits: of tables
  kAround,    // and what lies around it
};

struct BatchLimits {
  int64_t multiple_of = 1;
  std::optional<int64_t> most = {};           // --max
  bool is_strict = false;                     // batches that are TIGHT do not count
  BatchDetail detail = BatchDetail::kAround;  // of one row; of more, kHeadline at most
  bool tells_largest = false;  // the estimate is at the largest that runs, not at the one to take
  bool reads_off = false;  // as BatchSearch::LargestSettled; what runs by luck is not looked for
  // Told what is being done, from several threads.
  std::function<void(const std::string&)> progress = {};
};

// A batch near the answer, judged.
struct BatchOutcome {
  int64_t batch = 0;
  Judgement judgement;
};

struct MaxBatch {
  Target target;
  // The largest N for which every batch from N - N/50 to N + N/50 runs, so that a little more or
  // less of anything does no harm (of many, 128 that lie evenly); 0: not even one sample.
  int64_t batch = 0;
  bool is_limited = false;                // larger ones run, too: --max ends it
  int64_t judged_batch = 0;               // that batch; where it is 0, the least that fails
  Judgement judgement;                    // of judged_batch
  std::optional<BatchOutcome> next = {};  // the first above it that fails
  std::vector<int64_t> luckier = {};      // those above `next` that run, though one below does not
  int64_t luckier_stride = 1;             // one in so many was tried
  // The largest that is FITS, as --strict would find it, where `batch` is TIGHT; 0: there is none.
  std::optional<BatchOutcome> fitting = {};
  // Where the file leaves open what decides and the worse reading has a say: the largest batch as
  // guessed.
  std::optional<int64_t> guessed_batch = {};
  std::string reading = {};  // flags of the worse reading, "" where nothing is open
  // What tensors take at the peak, cuDNN's workspaces aside, where a batch runs: about fixed_bytes
  // + batch × per_sample_bytes, the line through this batch and half of it; 0 where what lies
  // between is on no line.
  int64_t fixed_bytes = 0;
  int64_t per_sample_bytes = 0;
  bool grows_faster = false;  // than any line: a sample takes more, the more there are
  // What one sample more takes just below the batch, and just above half of it; 0 where unknown.
  int64_t last_sample_bytes = 0;
  int64_t half_sample_bytes = 0;
  std::string end = {};  // why the model takes no larger size; "" where the card ends it
};

// The largest that is FITS; batch 0 where there is none.
BatchOutcome FittingOf(const MaxBatch& found);

// The batch to take: that, else the largest that runs; batch 0 with the judgement of the least that
// fails where none does.
BatchOutcome RecommendedOf(const MaxBatch& found);

// One answer a target, in their order; those of one kind of card share their predictions, kinds
// run in threads of their own.  Throws Error as Predict does, and where the batch of the file
// cannot be changed.  Some 20 predictions and N/25 plays of ten steps a target.
std::vector<MaxBatch> FindMaxBatches(const Study& study, const EstimateRequest& request,
                                     std::span<const Target> targets,
                                     const BatchLimits& limits = {});

// The same of any size, in its units: `batch` is that size, a "sample" one unit.  It ends where the
// model takes no larger one.  Throws Error where `size.least` is none.
std::vector<MaxBatch> FindLargest(const Study& study, const EstimateRequest& request,
                                  std::span<const Target> targets, const BatchLimits& limits,
                                  const SolvedSize& size);

// A card and a run, and the batch that they go with.
struct MaxBatchRow {
  TrainingSettings settings;
  std::map<std::string, int64_t> dims = {};
  MaxBatch found;
  // At the batch to take, or at the largest that runs where that is asked for (at 1 where it is 0);
  // of one row alone.
  std::optional<Estimate> estimate = {};
  FileRemarks remarks = {};          // at such a batch; of rows without an estimate
  std::vector<Advice> advice = {};   // what would raise it, where that was asked for
  std::string recipe = {};           // a command that runs where nothing else does; "" for none
  std::string why_not_largest = {};  // why less may be better, "" for many rows
};

struct MaxBatchAnswer {
  std::string model;  // its path
  std::string alloc_conf = {};
  bool is_strict = false;              // what is TIGHT does not run
  std::vector<MaxBatchRow> rows = {};  // for each request its targets, in their order
  Warnings warnings = {};              // about the cards of several rows, a sentence for all
  bool is_of_ranks = false;            // rows are cards that train together, and all there are
};

// What all cards have room for that train together: the least of `rows`.  REQUIRES: there is one.
struct BatchesOfAll {
  int64_t runs = 0;
  int64_t fits = 0;
};
BatchesOfAll LeastOf(std::span<const MaxBatchRow> rows);

// FindMaxBatches for each of `requests` and its targets.  Of several rows each is brief.
// REQUIRES: there is a row.
MaxBatchAnswer AnswerMaxBatch(const Study& study, std::span<const EstimateRequest> requests,
                              const BatchLimits& limits = {});

// Why less than the largest batch may be better, in a sentence or two.
std::string WhyNotLargest(const Target& target, Mode mode);

}  // namespace onnxfit

// The program of one run at any batch.  Internal to the room fit/.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/graph/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// `request`, whose batch is `from`, with the batch `to`.  Inputs that are bound as a whole
// (--shape) follow it: the file's first, and those with that batch where it is not 1.
void SetBatch(const Graph& file, int64_t from, int64_t to, EstimateRequest& request);

// Recovers a few batches from the file and reads those between them off, where a further one in
// between confirms that this gives the same (program/between_batches.h).
class BatchPrograms {
 public:
  // `file` must outlive it.
  BatchPrograms(const Graph& file, const EstimateRequest& request);

  // Before Dispatch.  May be called from several threads.  REQUIRES: batch >= 1.  O(calls) where
  // it can be read off, else a recovery.  Throws Error as PrepareRun does.
  Program At(int64_t batch);

  // What is asked at that batch, without details and `why`.
  EstimateRequest RequestAt(int64_t batch) const;

 private:
  struct Span {
    int64_t first = 0;
    int64_t last = 0;
  };

  const Program& Recovered(int64_t batch);
  void RecoverBeyond(int64_t batch);
  const Span* FindSpan(int64_t batch) const;
  const Span* TrySpan(int64_t batch);

  const Graph& file_;
  EstimateRequest request_;
  int64_t asked_batch_ = 1;  // of request_
  std::mutex mutex_;         // of all that follows
  std::map<int64_t, Program> recovered_;
  std::vector<Span> spans_;  // in which batches can be read off
  int failures_ = 0;         // of attempts to find one
};

}  // namespace onnxfit

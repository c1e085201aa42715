// A run at each shape that its batches have, and its steps one after another through one allocator.
// Internal to the room fit/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "estimator/fit/batch_runs.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/lengths.h"
#include "estimator/fit/study.h"
#include "estimator/fit/verdict.h"
#include "estimator/memory/series_run.h"

namespace onnxfit {

// The dimension that `options` name, else the one that the file leaves free beside the batch.
// Throws Error where there is none, or several.
std::string DimOf(const Graph& file, const LengthOptions& options);

// `request` at that shape, without details.  A batch of 0 is the request's.
EstimateRequest AtShape(const EstimateRequest& request, const std::string& dim,
                        const StepShape& shape);

// The runs of one request at all shapes that occur.
class LengthRuns {
 public:
  // `study` and `request` must outlive it.  `batch` is what the request has by itself.
  LengthRuns(const Study& study, const EstimateRequest& request, std::string dim, int64_t batch);

  // Finds those that are not there yet: for each batch the longest, the shortest and the middle one
  // are recovered, others read off where that confirms it.  `progress` is told how many are there,
  // from several threads.  Throws Error as Predict does, and where steps of one shape cannot follow
  // those of another.
  void Add(const std::set<StepShape>& shapes,
           const std::function<void(size_t, size_t)>& progress = {});

  // REQUIRES: all of `shapes` were added.
  SeriesRun Play(const std::vector<StepShape>& shapes, const CardRoom& room,
                 const AllocatorConf& conf) const;

  int64_t batch() const { return batch_; }

  // What is asked at that shape.  A batch that is the request's own is not named: the file may have
  // it fixed.
  EstimateRequest Asked(StepShape shape) const;

  // What may come beside the steps' own memory, at most of all shapes; without a trace.
  const PlayableRun& beside() const { return beside_; }

 private:
  // Of one shape: equal loops are one.
  struct Sized {
    std::shared_ptr<const Loop> loop;
    std::vector<int64_t> bytes;
  };

  PlayableRun Predicted(const StepShape& shape) const;
  PlayableRun ReadOff(const StepShape& shape) const;
  void Prepare(const std::set<StepShape>& shapes);
  void Keep(const StepShape& shape, PlayableRun run);
  std::vector<SeriesLoop> Loops() const;

  const Study& study_;
  const EstimateRequest& request_;
  const std::string dim_;
  const int64_t batch_;
  std::map<int64_t, std::unique_ptr<BatchPrograms>> programs_;  // by batch
  std::map<StepShape, int32_t> place_;                          // in sized_
  std::vector<Sized> sized_;
  PlayableRun beside_;
};

}  // namespace onnxfit

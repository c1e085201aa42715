// Runs of one program at several batches, and what lies on the line between two of them.  Internal
// to the room fit/.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "estimator/base/missing_bytes.h"
#include "estimator/base/settings.h"
#include "estimator/eager/convolved_log.h"
#include "estimator/memory/loop.h"
#include "estimator/memory/trace.h"
#include "estimator/program/program.h"
#include "estimator/workspaces/cudnn_workspaces.h"

namespace onnxfit {

// What differs between batches that make the same calls.
struct BatchSizes {
  std::vector<int64_t> bytes = {};  // by BufferId
  int64_t unmodelled_bytes = 0;     // what cuDNN may ask for beyond, at most
};

// A batch that was run.
struct BatchRun {
  Trace trace;  // without its buffers' types
  Loop loop;
  BatchSizes sizes;
  MissingBytes missing;                 // as PlayableRun has it
  ConvolvedLog convolved;               // which buffers are cuDNN's workspaces
  std::vector<AskedConvolution> asked;  // what it may ask for more with; none where it is off
};
using SharedBatchRun = std::shared_ptr<const BatchRun>;

// As many steps as are traced, all of a verdict's where a few do not repeat.  Of its buffers only
// the sizes are kept, `missing` is left empty.
std::shared_ptr<BatchRun> RunBatch(const Program& program, const TrainingSettings& settings);

struct RunAtBatch {
  int64_t batch = 0;
  const BatchRun& run;
};

// Whether both are one loop, of buffers whose sizes alone may differ.  O(calls).
bool SameCalls(const Loop& a, const Loop& b);

// Whether all three make the same calls, and every buffer grows by the same whole number of bytes a
// sample from the first to the last, by way of `middle`; where it is a workspace of cuDNN's, which
// no line leads to, the convolution itself does.
bool AreOnLine(const RunAtBatch& first, const RunAtBatch& last, const RunAtBatch& middle);

// What both have at a batch between them: on the line, and of workspaces as cuDNN needs them at
// that batch.  REQUIRES: they make the same calls.  O(buffers).
BatchSizes SizesBetween(const RunAtBatch& first, const RunAtBatch& last, int64_t batch,
                        const TrainingSettings& settings);

}  // namespace onnxfit

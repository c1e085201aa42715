// What CUDA graphs change: a compiled step whose forward and backward are recorded and replayed
// (torch.compile(model, mode="reduce-overhead")).
#pragma once

#include <cstddef>

#include "estimator/eager/holders.h"
#include "estimator/memory/trace.h"
#include "estimator/program/program.h"

namespace onnxfit {

// All that the model's calls allocate, forward and backward, comes from a pool of its own, which
// nothing else can use and which keeps its segments: the first step runs so, the second is recorded
// so, with copies of the batch and of what the loss's backward hands over; later ones replay it at
// the same places.  What is live in a replay is counted as in the step that was recorded.  Source:
// torch/_inductor/cudagraph_trees.py, 2.11.0.  `trace` is one of the program, whose calls from
// `model_end` on are not compiled; `holders`, if not null, are its own and come to be those of the
// result.  O(events × log labels).
Trace PutInGraphPool(const Program& program, size_t model_end, Trace trace, Holders* holders);

}  // namespace onnxfit

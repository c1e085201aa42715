// The same training step with its model compiled: torch.compile(model), the loss and the optimizer
// as they are.  Modelled: what the forward pass keeps (partition.h), and that results which only
// fused kernels read are never in memory.  Not modelled: how Inductor orders and merges kernels,
// what it writes of a backward pass (as in eager here), copies in other memory formats, padded
// products, what tuning takes in a first step, CUDA graphs.  So it is a guess, beside which eager's
// plan stands (Doubt::kCompiled).  Truth: benchmarks/compiled.
#pragma once

#include <cstddef>

#include "estimator/base/settings.h"
#include "estimator/eager/holders.h"
#include "estimator/memory/trace.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Whether that is known of such a run: of checkpoints, ranks and inference it is not.
bool IsCompiled(const TrainingSettings& settings);

// Throws Error where what is compiled is to be trained with checkpoints of its own.
void CheckCompilable(const Program& program, const TrainingSettings& settings);

// `eager` is a run in which nothing is written over its input, `holders` are its own, which come to
// be those of the result.  Calls from `model_end` on are not compiled.  O(events × log).
Trace CompileTrace(const Program& program, const TrainingSettings& settings, size_t model_end,
                   Trace eager, Holders& holders);

}  // namespace onnxfit

// Sessions of ONNX Runtime on a card that is not there.
#pragma once

#include <iosfwd>
#include <vector>

#include "cli/options.h"
#include "estimator/fit/target.h"
#include "estimator/onnx/graph.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {

// Runs the model of `options` by the onnxruntime-gpu of ONNXFIT_PYTHON (python3) on `target`, with
// zeros for weights and inputs, and plays other orders of its weights.  Each session runs the
// shapes of `requests` one after another.  `graph` is the model's.  Seconds.  Throws Error where
// onnxruntime is not there, or does not take the model.
RuntimeRun RunOnRuntime(const Options& options, const Graph& graph,
                        const std::vector<EstimateRequest>& requests, const Target& target,
                        std::ostream& err);

}  // namespace onnxfit

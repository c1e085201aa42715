// Sessions of ONNX Runtime's CPU provider on this machine, and what they have of its RAM.
#pragma once

#include <vector>

#include "cli/options.h"
#include "estimator/onnx/graph.h"
#include "estimator/report/host_run.h"

namespace onnxfit {

// Runs the model of `options` by the onnxruntime of ONNXFIT_PYTHON (python3), with zeros for inputs
// and, in files beside it, for weights.  Each session runs the shapes of `requests` one after
// another, and computes: seconds and more.  `is_for_search`: one session alone.  `graph` is the
// model's.  Throws Error where onnxruntime is not there or does not take the model, and where this
// machine has too little RAM for it.
HostRun RunOnHost(const Options& options, const Graph& graph,
                  const std::vector<EstimateRequest>& requests, bool is_for_search);

}  // namespace onnxfit

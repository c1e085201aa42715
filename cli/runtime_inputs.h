// The shapes that sessions of ONNX Runtime are to run.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/graph.h"
#include "estimator/report/runtime_run.h"

namespace onnxfit {

struct RuntimeShapes {
  int64_t batch = 0;  // of the first
  std::vector<std::vector<RuntimeInput>> inputs = {};
  std::vector<std::string> names = {};  // "batch 8, seq 128": where nothing varies the batch alone
};

// Of the inputs of `graph`, a shape a request.  Throws Error for inputs that are no tensors of
// numbers.
RuntimeShapes ShapesOf(const Options& options, const Graph& graph,
                       const std::vector<EstimateRequest>& requests);

// Throws Error where Python has no onnxruntime with that provider ("CUDA", "CPU"): how to get it.
[[noreturn]] void RefuseWithoutRuntime(const std::string& found, std::string_view provider);

}  // namespace onnxfit

// What a file says of a run where nobody names it: the types (fit/file_types.h), and the version of
// PyTorch, which is that which wrote it, or the default, the worse of both that are in use. Whoever
// loads a model for an answer asks here.
#pragma once

#include "cli/options.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/graph.h"

namespace onnxfit {

// `request` as it is asked of `file`.  Where --framework was given, nothing changes.  A version
// that lacks what other flags ask for (torch.compile, an option of PYTORCH_ALLOC_CONF) gives way to
// the first later one that has it.  A file by a version to come gets a warning.
EstimateRequest AskedOf(const Graph& file, EstimateRequest request);

// The same of all that was asked.
Options AskedOf(const Graph& file, Options options);

}  // namespace onnxfit

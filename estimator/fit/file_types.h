// What a file's own types say of a run of which nobody has named the precision.
#pragma once

#include "estimator/fit/estimate.h"

namespace onnxfit {

struct Graph;

// `request` for that file: where its types are kept (TrainingSettings::keeps_types) and no autocast
// is around them, `precision` becomes that of most of the parameters' elements, of a file without
// parameters that of its inputs.  Of an ONNX file, types are kept where they differ; where all are
// alike, as a tool writes them that converts to float16, the run is that of a model that was cast.
// O(inputs of the program, initializers).
EstimateRequest WithTypesOf(const Graph& file, EstimateRequest request);

}  // namespace onnxfit

// What a file's own types say of a run of which nobody has named the precision.
#pragma once

#include "estimator/fit/estimate.h"

namespace onnxfit {

struct Graph;

// `request` for that file: where its types are kept (TrainingSettings::keeps_types) and no autocast
// is around them, `precision` becomes that of most of the parameters' elements, of a file without
// parameters that of its inputs.  A file that says no types of PyTorch's own, as ONNX nodes alone
// do not, is cast to the request's precision.  O(inputs of the program).
EstimateRequest WithTypesOf(const Graph& file, EstimateRequest request);

}  // namespace onnxfit

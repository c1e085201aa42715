// Which of the sizes that a user chose is wrong, where a node refuses what came of it.
#pragma once

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/onnx/size_error.h"

namespace onnxfit {

// `error` told by the input and the dimension that are to blame, with what they ought to be; or
// `error` itself where no single one is.  Found by trial: the dimension without whose size the
// graph holds.  `file` is the graph as it was loaded.  O(nodes) for each of up to 32 trials.
Error WrongSize(const Graph& file, const DimBinding& binding, const SizeError& error);

}  // namespace onnxfit

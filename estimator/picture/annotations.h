// What each node and tensor takes, as notes for its file.
#pragma once

#include "estimator/fit/estimate.h"
#include "estimator/fit/predict.h"
#include "estimator/onnx/annotated_copy.h"

namespace onnxfit {

// Of a node "at_peak" ("24.0 MiB (25165824 bytes), 3.1%: activations") and "allocated", the most
// by all while it runs forward; of a parameter "at_peak", by kinds; of the model the "run", its
// "peak" and a verdict for each card.
FileNotes AnnotationsOf(const Prediction& prediction, const Estimate& estimate);

}  // namespace onnxfit

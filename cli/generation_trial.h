// generate() of a transformers model, on a card that is not there.
#pragma once

#include "estimator/fit/target.h"
#include "estimator/report/generation_run.h"

namespace onnxfit {

// Runs it by the transformers of ONNXFIT_PYTHON (python3) in a process of its own, with weights
// that are zeros.  Seconds to minutes: each token is computed, by kernels that do nothing.  Throws
// Error where there is no transformers, or it does not take the model.
GenerationRun RunGeneration(const AskedGeneration& asked, const Target& target);

}  // namespace onnxfit

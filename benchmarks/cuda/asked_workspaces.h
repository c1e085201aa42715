// Workspaces as cuDNN itself chooses them, asked one by one when they are needed.
#pragma once

#include <memory>

#include "benchmarks/cuda/libraries.h"
#include "estimator/base/calibration.h"

namespace onnxfit {

// Of a card that need not be there.  Each convolution is asked for once; may be used by several
// threads.
std::shared_ptr<WorkspaceSource> AskedWorkspaces(std::shared_ptr<Libraries> libraries,
                                                 const DescribedCard& card);

}  // namespace onnxfit

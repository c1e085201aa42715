// --cudnn: what convolutions ask for, told by cuDNN itself.
#pragma once

#include "cli/options.h"

namespace onnxfit {

// Gives every card of the run a cuDNN that is asked for workspaces.
// Nothing without --cudnn.  Cards that cuDNN does not know get a warning.  Throws Error where there
// is no cuDNN that can be asked.
void AskCudnn(Options& options);

// The same for one card, which it has to know.
void AskCudnn(const Options& options, DeviceProfile& device);

}  // namespace onnxfit

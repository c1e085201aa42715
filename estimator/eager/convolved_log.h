// Which buffers of a trace are cuDNN's workspaces, and of which convolutions: so those of another
// batch can be looked up without another run.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/base/calibration.h"
#include "estimator/memory/trace.h"

namespace onnxfit {

// While it is filled, a convolution that needs no workspace has a buffer of no bytes, which is as
// if it were not there: runs of all batches then make the same calls.
struct ConvolvedLog {
  struct Workspace {
    BufferId buffer = 0;
    int32_t convolution = 0;  // index into `convolutions`

    bool operator==(const Workspace&) const = default;
  };

  std::vector<Convolution> convolutions;
  std::vector<Workspace> workspaces;  // in the order of their births
};

}  // namespace onnxfit

// cuDNN's batch norms: what they ask for beside their tensors.
#include <cstddef>

#include "estimator/absent/events.h"
#include "estimator/absent/status.h"

namespace onnxfit::absent {
namespace {

// cudnnBatchNormMode_t (cudnn_ops.h 9.19).  PyTorch trains with it where tensors are channels_last
// (aten/src/ATen/native/cudnn/BatchNorm.cpp, 2.11).
constexpr int kPersistent = 2;

// The modes of contiguous tensors take nothing: an H200 asked for none in the networks of
// benchmarks/absent.  What the persistent one takes nobody has seen.
Status Answer(int mode, const char* function, size_t* bytes) {
  if (mode == kPersistent) WriteUnknownSize(function);
  *bytes = 0;
  return kSuccess;
}

}  // namespace

ABSENT_API Status cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void*, int mode, int,
                                                                           void*, void*, void*,
                                                                           void*, void*,
                                                                           size_t* bytes) {
  return Answer(mode, __func__, bytes);
}
ABSENT_API Status cudnnGetBatchNormalizationBackwardExWorkspaceSize(void*, int mode, int, void*,
                                                                    void*, void*, void*, void*,
                                                                    void*, void*, size_t* bytes) {
  return Answer(mode, __func__, bytes);
}
ABSENT_API Status cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void*, int mode, int, void*,
                                                                       void*, size_t* bytes) {
  return Answer(mode, __func__, bytes);
}

}  // namespace onnxfit::absent

#include "estimator/base/device.h"

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

// Context: process figure minus PyTorch's own figures in published out-of-memory
// messages of A100 cards: 501, 503, 512 MiB; 414 MiB where no kernel had run.
constexpr DeviceProfile kA100 = {
    .name = "A100",
    .context = {.bytes = 503 * kMiB, .low = 414 * kMiB, .high = 512 * kMiB},
    .compute_capability = 80,            // CUDA C++ Programming Guide
    .multiprocessors = 108,              // NVIDIA A100 Tensor Core GPU Architecture, 2020
    .threads_per_multiprocessor = 2048,  // CUDA C++ Programming Guide, compute capability 8.0
};

}  // namespace

const DeviceProfile& DefaultDevice() { return kA100; }

}  // namespace onnxfit

// What cuDNN's kernels ask for by a closed form, on cards where nobody asked the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "estimator/base/calibration.h"
#include "estimator/base/device.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// Whether workspaces of such a card follow a form: Hopper's.  Convolutions in 32 and 16 bits run
// there in the order NHWC, through copies of tensors that lie in the order NCHW, or whose channels
// do not fill 16 bytes.  How often it is right, of 48,508 on an H200 (torch 2.11.0, cuDNN 9.19.0):
// benchmarks/convolutions/README.md.
bool HasWorkspaceForm(const DeviceProfile& device);

// By that form.  O(dims).  Throws Error where it needs more than 63 bits.
int64_t FormedWorkspaceBytes(const Convolution& convolution);

// The same; nullopt on a card without one.
std::optional<int64_t> FormedOn(const DeviceProfile& device, const Convolution& convolution);

// A window of one element, each of which is read: a product of matrices.
bool IsPointwise(const Convolution& convolution);

// Whether cuDNN runs it on cublasLt.  Asked without a card, it has none of those plans: of 4,434
// forward ones in fp32 on Hopper 86 % ask for nothing, of the answers without it a quarter say so.
// Of 1,100 points in 16 bits on Ampere and Ada all have the same answer both ways (4,000 calls of
// benchmarks/convolutions, cuDNN 9.19.0).
bool RunsOnCublasLt(const Convolution& convolution, const DeviceProfile& device);

int64_t AreaOfWindow(const Convolution& convolution);

// Of a tensor with `channels`, by dimension, filled up to a multiple of `width`.
int64_t FilledBytes(DType dtype, Dims dims, std::initializer_list<size_t> channels, int64_t width);

}  // namespace onnxfit

// What cuDNN asks for where it runs attention.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"
#include "estimator/base/framework.h"
#include "estimator/eager/attention_choice.h"

namespace onnxfit {

// Bytes of the one workspace that a call takes, 0 for none, with the cuDNN and the cudnn-frontend
// that `framework`'s wheel has.  O(1).  Throws Error where that needs more than 63 bits.
// REQUIRES: ChooseAttention takes cuDNN for `attention` on `device`.
// Limit: where batch, heads and rows give few multiprocessors something to do, forward may split
// its keys and take about 4 (D + 2) bytes more for each row, head and part: with one row from 513
// keys on, with more on compute capability 10.x from torch 2.14 and 4096 keys on.  Not modelled.
int64_t CudnnAttentionForwardBytes(const Attention& attention, const DeviceProfile& device);
int64_t CudnnAttentionBackwardBytes(const Attention& attention, bool has_mask,
                                    const FrameworkProfile& framework, const DeviceProfile& device);

}  // namespace onnxfit

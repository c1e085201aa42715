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
// Limit: from 2.15 on, cards of compute capability 10.0 may split few rows with many keys (77 with
// 4096) among multiprocessors and ask for more in forward.
int64_t CudnnAttentionForwardBytes(const Attention& attention, bool keeps_log_sum_exp,
                                   const FrameworkProfile& framework, const DeviceProfile& device);
int64_t CudnnAttentionBackwardBytes(const Attention& attention, bool has_mask,
                                    const FrameworkProfile& framework, const DeviceProfile& device);

}  // namespace onnxfit

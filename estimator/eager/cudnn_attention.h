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
// Limit: on cards of compute capability 10.0 torch 2.15's cuDNN splits many keys (from 4096 on, of
// one row from 2048) where batch x heads x 256 rows give half of the multiprocessors nothing to do;
// forward then takes 4 (D + 2) bytes a row and part, up to 128 parts, which is not modelled.
int64_t CudnnAttentionForwardBytes(const Attention& attention, bool keeps_log_sum_exp,
                                   const FrameworkProfile& framework, const DeviceProfile& device);
int64_t CudnnAttentionBackwardBytes(const Attention& attention, bool has_mask,
                                    const FrameworkProfile& framework, const DeviceProfile& device);

}  // namespace onnxfit

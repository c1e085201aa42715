// Which kernel PyTorch takes for scaled-dot-product attention, by card, version, types and shapes;
// and what cuDNN's asks for.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/base/device.h"
#include "estimator/base/framework.h"
#include "estimator/operators/strides.h"

namespace onnxfit {

// The operands of a call, q [B, H, S, D], k and v [B, Hk, Sk, D or Dv].
struct Attention {
  StridedType q;
  StridedType k;
  StridedType v;
  bool drops = false;

  int64_t batch() const { return q.dims[0]; }
  int64_t heads() const { return q.dims.end()[-3]; }
  int64_t rows() const { return q.dims.end()[-2]; }
  int64_t keys() const { return k.dims.end()[-2]; }
  int64_t head_size() const { return q.dims.back(); }
  int64_t value_size() const { return v.dims.back(); }
  bool is_grouped() const { return k.dims.end()[-3] != heads(); }
  bool is_16_bit() const { return BitsOf(q.dtype) == 16; }
};

// What else the choice asks.
struct AttentionTerms {
  std::optional<StridedType> mask = {};
  bool is_causal = false;
  bool needs_grad = false;       // of q, k or v
  bool mask_needs_grad = false;  // of the mask
};

enum class AttentionKernel : uint8_t { kCudnn, kFlash, kEfficient, kMath };

// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, pytorch v2.6.0 and of 2026; what
// torch._fused_sdp_choice answers in 2.6 to 2.15 on cards of compute capability 7.5 to 12.0.
// Dropouts count as such that cuDNN does not take from 2.12 on: their p is no multiple of 1/16.
AttentionKernel ChooseAttention(const Attention& attention, const AttentionTerms& terms,
                                const FrameworkProfile& framework, const DeviceProfile& device);

// Bytes of the one workspace that a call by cuDNN takes, 0 for none, with the cuDNN and the
// cudnn-frontend that `framework`'s wheel has.  O(1).  Throws Error where that needs more than 63
// bits. REQUIRES: ChooseAttention takes cuDNN for `attention` on `device`. Limit: where batch,
// heads and rows give few multiprocessors something to do, forward may split its keys and take
// about 4 (D + 2) bytes more for each row, head and part: with one row from 513 keys on, with more
// on compute capability 10.x from torch 2.14 and 4096 keys on.  Not modelled.
int64_t CudnnAttentionForwardBytes(const Attention& attention, const DeviceProfile& device);
int64_t CudnnAttentionBackwardBytes(const Attention& attention, bool has_mask,
                                    const FrameworkProfile& framework, const DeviceProfile& device);

}  // namespace onnxfit

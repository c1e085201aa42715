// What torch.nn runs in inference in place of its modules' own forwards.  Internal to the room
// program/.
#pragma once

#include "estimator/program/program.h"

namespace onnxfit {

// Under torch.no_grad() in eval, and not under autocast, nn.MultiheadAttention and
// nn.TransformerEncoderLayer call torch._native_multi_head_attention and
// torch._transformer_encoder_layer_fwd, which exporters never see: gradients are on while they
// trace.  Writes such calls as those run (aten/src/ATen/native/transformers/cuda/attention.cu and
// transformer.cpp, pytorch v2.11.0; their events):
//
//   qkv = linear(x, in_proj)                     # where attention needs no mask and no weights
//   y = scaled_dot_product_attention(*qkv.chunk(3, -1))
//   return linear(y, out_proj)
//
// and with either, scores, masked softmax and context in tensors of their own; the layer adds into
// what its parts return.  Left as written: odd numbers of heads, batch_first=False, attention
// between two tensors, masks of bools in nn.MultiheadAttention, masks of padding (nested tensors,
// whose sizes only data say), activations other than relu and gelu.
// O(calls × depth of modules).
void TakeFastPaths(Program& program, const TrainingSettings& settings);

}  // namespace onnxfit

// What torch.nn runs in inference in place of its modules' own forwards.  Internal to the room
// writer/.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/program/module_runs.h"
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
// between two tensors, masks of bools in nn.MultiheadAttention but of padding, such a mask beside
// another, activations other than relu and gelu.  nn.TransformerEncoder makes nested tensors of
// rows that are padded behind: their sizes only data say, and here they are as long as the padded
// ones. O(calls × depth of modules).
void TakeFastPaths(Program& program, const TrainingSettings& settings);

// --- The modules that have them (encoder_layers.cc) -----------------------------------------
// Calls of torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer in a program, by the
// names of their parameters and by what they run.

// One call of nn.MultiheadAttention(batch_first=True) with query, key and value the same tensor.
struct SelfAttention {
  int64_t first = 0;  // its calls
  int64_t last = 0;
  size_t level = 0;                          // of the module, in their scopes
  NameId input = kNoName;                    // [B, T, D]
  NameId result = kNoName;                   // [B, T, D]
  const AtenCall* in_projection = nullptr;   // of x, in_proj_weight, in_proj_bias
  const AtenCall* out_projection = nullptr;  // of …, out_proj.weight, out_proj.bias
  int64_t heads = 0;
  bool needs_weights = false;  // softmax is written out: the caller asked for it
  bool has_mask = false;
  bool has_padding_mask = false;  // one for each sequence of the batch
  bool has_row_mask = false;      // and all of its queries: src_key_padding_mask alone
};

// One call of nn.TransformerEncoderLayer.
struct EncoderLayer {
  SelfAttention attention = {};
  int64_t first = 0;
  int64_t last = 0;
  size_t level = 0;
  NameId input = kNoName;
  NameId result = kNoName;
  const AtenCall* norm1 = nullptr;
  const AtenCall* norm2 = nullptr;
  const AtenCall* linear1 = nullptr;
  const AtenCall* linear2 = nullptr;
  bool norm_first = false;
};

// That of the module call at `level` around call `first`; nullopt where it is none.  Pointers are
// into program.calls.  O(calls).
std::optional<SelfAttention> FindSelfAttention(const Program& program, const ModuleRuns& runs,
                                               int64_t first, size_t level);
// With relu or gelu between its linears, as all that its fast path takes.
std::optional<EncoderLayer> FindEncoderLayer(const Program& program, const ModuleRuns& runs,
                                             int64_t first, size_t level);

}  // namespace onnxfit

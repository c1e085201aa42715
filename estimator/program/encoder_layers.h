// Calls of torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer in a program, by the
// names of their parameters and by what they run.  Internal to the room program/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

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

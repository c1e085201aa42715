// The names of attention that a forward writes out, in files that show no lines.  Internal to the
// room locals/.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/locals/forward_locals.h"
#include "estimator/program/module_runs.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Of "attn = softmax(q @ k.transpose(-2, -1) * scale + mask)" and "out = attn @ v": q, k, v, the
// weights, and the scores where a library names them apart.  Each is held until the same forward
// makes it anew, in the next turn of a loop over layers, or returns; as nearly all code is written.
// `last` is the model's last call.  O(calls + attentions × calls between).
std::vector<KnownName> FindAttentionNames(const Program& program, const ModuleRuns& runs,
                                          int64_t last);

}  // namespace onnxfit

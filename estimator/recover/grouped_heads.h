// Heads of keys and values that several heads of queries share.  Internal to the room recover/.
#pragma once

#include <vector>

#include "estimator/recover/bound_graph.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

// Attention of which the exporter was given a mask that PyTorch, in training, is not: transformers
// then passes grouped heads as they are (enable_gqa) instead of repeating keys and values, which
// is in the file (use_gqa_in_sdpa of integrations/sdpa_attention.py, transformers 5.17).
// Takes k[:, :, None].expand(…).reshape(…) back to k in such rewrites.  O(rewrites).
void TakeBackRepeatedHeads(const BoundGraph& bound, std::vector<Rewritten>& rewrites);

}  // namespace onnxfit

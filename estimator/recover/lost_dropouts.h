// Dropouts of transformers that an export for inference has left out without a trace.
// Internal to the room recover/.
#pragma once

#include <optional>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/lost_calls.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {

struct LostDropouts {
  std::vector<LostCall> calls;    // in the order of nodes
  std::vector<size_t> attention;  // rewrites that are attention which drops out
};

// Where transformers have dropouts; of files with metadata, which tell of other dropouts,
// attention alone; nothing of training exports.  Those called rare here are put back only where a
// flag says so, and are in doubt else.
//   in front of a residual sum, behind the linear layer of its branch
//   (rare) the same where the branch is scaled, or ends with a convolution of one element
//   (rare) behind the activation of such a branch: linear, activation, linear (feed_forward.h)
//   behind the sum of an embedding and positions, or its layer norm, if nothing else reads it
//   behind a softmax that weighs values, and inside of fused attention
//   in front of the last layer of a feed-forward block or a classifier, and behind T5's final
//   norms, by the names that torch.nn and transformers give them
// O(nodes).
LostDropouts FindLostDropouts(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

// Whether a model with attention likely has a p above 0: where it reads words and has no rotary
// embedding.  Configurations of transformers 5.17 and models of timm 1.0 that read images or
// sounds, or that have rotary embeddings, have a p of 0 unless they are told another.  nullopt for
// models without attention.  O(nodes).
std::optional<bool> LikelyDropsOut(const BoundGraph& bound, const std::vector<Rewritten>& rewrites);

}  // namespace onnxfit

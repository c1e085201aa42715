// Dropouts that an export for inference has left out.  Internal to the room program/.
#pragma once

#include <string>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/program/folded_batch_norm.h"

namespace onnxfit {

struct LostDropout {
  NodeId before = kNoNode;   // the node that read its result
  ValueId input = kNoValue;  // what the node reads now
  std::string name;          // one dropout may have several readers
};

// Signals: an operand "%clone_3" of the call that a node came from, which no node makes
// (in eval mode torch.export turns Dropout into a clone, and removes it); a gap in the
// indices of a Sequential, "classifier.0" missing before "classifier.1", that neither
// such a clone nor a folded batch norm explains.  A Dropout at the end of a Sequential, or
// outside of one, is not seen.  Nothing in files exported in training mode.
// In the order of nodes.  O(nodes).
std::vector<LostDropout> FindLostDropouts(const Graph& graph,
                                          const std::vector<FoldedBatchNorm>& folded);

}  // namespace onnxfit

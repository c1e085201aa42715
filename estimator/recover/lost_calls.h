// Calls that an export has left out.  Internal to the room recover/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/exporter_metadata.h"
#include "estimator/recover/folded_batch_norm.h"

namespace onnxfit {

struct LostCall {
  NodeId before = kNoNode;   // the node that read its result
  ValueId input = kNoValue;  // what the node reads now
  std::string name;          // one call may have several readers
  std::string_view op;       // "dropout", "cat", …; "" where it repeats another call
  NodeId repeats = kNoNode;  // the node that made `input`, by an equal call
  NodeId behind = kNoNode;   // the node behind which it runs; kNoNode: before its reader
  // The module call that runs it, by its caller and its own name; "": by the caller's own forward,
  // and where there is no caller, either, beside its reader's.
  ModuleId caller = kOutside;
  std::string module = {};
  ValueId like = kNoValue;      // its second operand, if it has one
  std::string tensors_of = {};  // the module whose a repeated call reads, if not the same
  bool is_rare = false;         // a dropout that is put back only where a flag says so
};

// Signals: an operand of the call that a node came from which no node makes: in eval mode
// torch.export turns Dropout into "%clone_3" and removes it, as it does with contiguous(), which
// differs from it by what it copies: a view that the same module made; with "%cat_2", a
// concatenation of one tensor, which is a copy; with "%add_4", x + 0, or x * 1; and with
// "%relu_3", a call equal to one that it keeps, whose result the node then reads, or that of a norm
// with equal weights, whose own no call reads; and, for dropouts
// of files exported for inference, a gap in the indices of a Sequential: "classifier.0" missing
// before "classifier.1", which neither such a clone nor a folded batch norm explains.  A dropout at
// the end of a Sequential, or outside of one, is not seen. In the order of nodes.  O(nodes).
std::vector<LostCall> FindLostCalls(const Graph& graph, const ExporterMetadata& metadata,
                                    const std::vector<FoldedBatchNorm>& folded);

}  // namespace onnxfit

// What a file's nodes stand for: every node is in exactly one unit, and each unit is lowered as a
// whole.  Internal to the room recover/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/recover/device_values.h"

namespace onnxfit {

// Why nodes belong together, the surest signal first.
enum class UnitKind : uint8_t {
  kCall,       // several nodes are one call: by what the exporter says of them, or by a pattern
  kPutBack,    // what the file has left of a call that is put back as a whole
  kNumbers,    // arithmetic of sizes, masks and constants on the host: no call
  kBatchNorm,  // a product and a sum, which were a batch norm (batch_norms.h)
  kNode,       // a single node, by the row of its operator
};

struct Unit {
  UnitKind kind = UnitKind::kNode;
  std::vector<NodeId> nodes;
  NodeId at = kNoNode;                    // the node in whose place its calls run
  const Rewritten* call = nullptr;        // of kCall
  const AffineBatchNorm* norm = nullptr;  // of kBatchNorm
};

// In the order in which they run.  `roles` and `calls` must outlive the units; `put_back` are nodes
// of a call that is put back.  O(nodes).
std::vector<Unit> FindUnits(const BoundGraph& bound, const Roles& roles, const DeviceValues& values,
                            const std::vector<Rewritten>& calls,
                            const std::vector<NodeId>& put_back);

// "4 x Sigmoid + Mul run as silu, the first at NODE", for -v.
std::vector<std::string> NotesOf(const Graph& graph, const std::vector<Rewritten>& calls);

}  // namespace onnxfit

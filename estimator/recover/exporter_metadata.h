// What torch.export's exporter says of the program that it exported, read once.
#pragma once

#include <cstdint>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/fx_node.h"
#include "estimator/recover/signature.h"

namespace onnxfit {

// The nodes that one call of PyTorch's became.
struct FxGroup {
  FxNode call;
  std::vector<NodeId> nodes;  // in the graph's order
};

struct ExporterMetadata {
  std::vector<SignatureEntry> signature;  // empty where the file has none
  std::vector<FxGroup> groups;            // in the order of their first nodes
  std::vector<int32_t> group_of;          // by NodeId: index into groups, -1: the file says nothing

  // The call that `node` came from, or null.
  const FxNode* CallOf(NodeId node) const;
};

// Its views stay valid as long as the graph's file.  O(nodes + length of their metadata).
ExporterMetadata ReadExporterMetadata(const Graph& graph);

}  // namespace onnxfit

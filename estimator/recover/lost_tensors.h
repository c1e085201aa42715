// Parameters and buffers that a file does not hold, though something in it tells of them.
// Internal to the room recover/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/roles.h"

namespace onnxfit {

struct LostTensor {
  Role role = Role::kBuffer;
  std::string name;
  TensorType type;  // as the file would have it
};

struct LostTensors {
  std::vector<LostTensor> tensors;
  // An initializer, and the lost buffer of which it is a view that the exporter computed.
  std::vector<std::pair<ValueId, std::string>> views;
  std::vector<std::string> assumptions;
};

// What graph_signature names and is not `in_file`, where the file tells its type: copies that no
// call reads, position ids as long as their table, a buffer that was sliced, norms whose result
// is not used.  Empty where there is no signature.  O((signature + initializers) × log).
LostTensors FindLostTensors(const BoundGraph& bound, std::vector<ModuleTensor> in_file);

// A table of which the file holds the rows that a model took, as a table of positions is read.
struct FoldedTable {
  ValueId rows = kNoValue;  // [n, width]
  LostTensor table;
};

// Signals: the one parameter that neither the file nor a call names, and the one constant that is
// called for a call of embedding.  The table has as many rows as the largest of the module's
// triangles, which mask positions, else those that were taken.  O(initializers + calls).
std::optional<FoldedTable> FindFoldedTable(const Graph& graph, const ExporterMetadata& metadata);

}  // namespace onnxfit

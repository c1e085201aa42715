#include "estimator/recover/float_buffers.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"
#include "estimator/program/module_names.h"
#include "estimator/recover/exporter_metadata.h"

namespace onnxfit {
namespace {

constexpr std::string_view kComparisons[] = {
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
};

constexpr std::string_view kViews[] = {
    "Slice", "Unsqueeze", "Squeeze", "Reshape", "Expand", "Gather", "Transpose",
};

template <size_t N>
bool IsOneOf(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

using Readers = std::unordered_map<ValueId, std::vector<NodeId>>;

// Every way from `value` ends in a comparison.
bool IsOnlyCompared(const Graph& graph, const Readers& readers, ValueId value) {
  std::vector<ValueId> open = {value};
  bool is_compared = false;
  while (!open.empty()) {
    const auto found = readers.find(open.back());
    open.pop_back();
    if (found == readers.end()) continue;
    for (const NodeId reader : found->second) {
      const Node& node = graph.nodes[Index(reader)];
      if (IsOneOf(kComparisons, node.op_type)) {
        is_compared = true;
      } else if (IsOneOf(kViews, node.op_type) && !node.outputs.empty()) {
        open.push_back(node.outputs[0]);
      } else if (node.op_type != "Shape") {
        return false;
      }
    }
  }
  return is_compared;
}

// final_logits_bias of transformers' BART, [1, n] without a name, which is added to the logits.
bool IsAddedToLogits(const Graph& graph, const Readers& readers, const Initializer& stored) {
  const bool is_row = stored.type.dims.size() == 2 && stored.type.dims[0] == 1 &&
                      IsComputedName(graph.values[Index(stored.value)].name);
  const auto found = readers.find(stored.value);
  if (!is_row || found == readers.end() || found->second.size() != 1) return false;
  const Node& add = graph.nodes[Index(found->second[0])];
  return add.op_type == "Add" && graph.values[Index(add.outputs[0])].is_output;
}

}  // namespace

std::unordered_set<ValueId> FindFloatBuffers(const Graph& graph) {
  Readers readers;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!HasResult(graph.nodes[i])) continue;
    for (const ValueId value : graph.nodes[i].inputs) {
      if (value != kNoValue) readers[value].push_back(static_cast<NodeId>(i));
    }
  }
  std::unordered_set<ValueId> buffers;
  for (const Initializer& initializer : graph.initializers) {
    if (!IsFloat(initializer.type.dtype) || Numel(initializer.type.dims) <= 1) continue;
    const std::string_view name = ChildOf(graph.values[Index(initializer.value)].name);
    const bool is_buffer = IsFloatBuffer(name) ||
                           IsOnlyCompared(graph, readers, initializer.value) ||
                           IsAddedToLogits(graph, readers, initializer);
    if (is_buffer) buffers.insert(initializer.value);
  }
  return buffers;
}

}  // namespace onnxfit

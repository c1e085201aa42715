#include "estimator/recover/autograd_functions.h"

#include <algorithm>
#include <map>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

std::string_view FunctionAround(const ExporterMetadata& metadata, NodeId node) {
  const NodeLines& lines = metadata.LinesOf(node);
  if (!lines.lines.empty()) return FunctionOf(lines.lines.back().file, lines.lines.back().text);
  return FunctionOfModule(ChildOf(metadata.PathOf(node)));
}

// What the nodes read that others made, then what the last one reads.
std::vector<ValueId> InputsOf(const BoundGraph& bound, const FunctionBody& body) {
  std::vector<ValueId> inputs;
  const NodeId last = body.nodes.back();
  for (const NodeId node : body.nodes) {
    for (const ValueId value : bound.At(node).inputs) {
      if (value == kNoValue || node == last) continue;
      const NodeId maker = bound.graph().values[Index(value)].producer;
      const bool is_own = std::ranges::find(body.nodes, maker) != body.nodes.end();
      const bool is_known = std::ranges::find(inputs, value) != inputs.end();
      if (!is_own && !is_known && !bound.IsNumber(value)) inputs.push_back(value);
    }
  }
  const std::vector<ValueId>& operands = bound.At(last).inputs;
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  return inputs;
}

}  // namespace

std::vector<FunctionBody> FindFunctionBodies(const BoundGraph& bound) {
  const ExporterMetadata& metadata = bound.metadata();
  std::map<ModuleId, FunctionBody> bodies;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    const auto node = static_cast<NodeId>(i);
    if (bound.At(node).op_type == "Constant") continue;
    const std::string_view op = FunctionAround(metadata, node);
    if (op.empty()) continue;
    FunctionBody& body = bodies[metadata.ModuleOf(node)];
    body.op = op;
    body.nodes.push_back(node);
  }
  std::vector<FunctionBody> found;
  for (auto& [module, body] : bodies) found.push_back(std::move(body));
  return found;
}

std::vector<Rewritten> FindFunctionCalls(const BoundGraph& bound) {
  std::vector<Rewritten> calls;
  for (const FunctionBody& body : FindFunctionBodies(bound)) {
    const NodeId last = body.nodes.back();
    calls.push_back({body.op, InputsOf(bound, body), last, {last}});
  }
  return calls;
}

}  // namespace onnxfit

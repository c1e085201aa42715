// Calls of torch.autograd.Functions, of which exporters write what their forwards run.
#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/exporters/autograd_functions.h"
#include "estimator/patterns/rewrites.h"

namespace onnxfit {
namespace {

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

std::vector<Rewritten> FindFunctionCalls(const BoundGraph& bound) {
  std::vector<Rewritten> calls;
  for (const FunctionBody& body : FindFunctionBodies(bound)) {
    const NodeId last = body.nodes.back();
    calls.push_back({body.op, InputsOf(bound, body), last, {last}});
  }
  return calls;
}

}  // namespace onnxfit

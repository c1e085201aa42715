// Maxima that are taken off in front of an exponential, which TorchScript's files do not tell from
// those that are trained.
#include <algorithm>
#include <string>

#include "estimator/base/index.h"
#include "estimator/recover/bound_graph.h"
#include "estimator/recover/lost_calls.h"

namespace onnxfit {
namespace {

bool IsOutput(const BoundGraph& bound, ValueId value) {
  return bound.graph().values[Index(value)].is_output;
}

// exp (x - m), softmax (x - m)
bool FeedsExponentials(const BoundGraph& bound, ValueId value) {
  const auto readers = bound.ReadersOf(value);
  return !readers.empty() && !IsOutput(bound, value) &&
         std::ranges::all_of(readers, [&](NodeId reader) {
           const std::string_view op = bound.At(reader).op_type;
           return op == "Exp" || op == "Softmax";
         });
}

// x - m of m = max (x), or (x - y) - m, as performers' kernels have it.
bool TakesOff(const BoundGraph& bound, NodeId sub, const Node& maximum) {
  const Node& node = bound.At(sub);
  if (node.op_type != "Sub" || node.inputs[1] != maximum.outputs[0]) return false;
  ValueId x = node.inputs[0];
  const NodeId inner = x == maximum.inputs[0] ? kNoNode : bound.Maker(x, "Sub");
  if (inner != kNoNode) x = bound.At(inner).inputs[0];
  return x == maximum.inputs[0] && FeedsExponentials(bound, node.outputs[0]);
}

}  // namespace

bool IsTakenOffMaximum(const BoundGraph& bound, NodeId maximum) {
  const Node& node = bound.At(maximum);
  if (node.op_type != "ReduceMax" || IntAttribute(node, "keepdims", 1) == 0) return false;
  if (!IsNamedByTorchScript(node) || IsOutput(bound, node.outputs[0])) return false;
  const auto readers = bound.ReadersOf(node.outputs[0]);
  return !readers.empty() &&
         std::ranges::all_of(readers, [&](NodeId reader) { return TakesOff(bound, reader, node); });
}

std::vector<LostCall> FindDetachedMaxima(const BoundGraph& bound) {
  std::vector<LostCall> calls;
  for (NodeId node = 0; node < std::ssize(bound.graph().nodes); ++node) {
    if (!IsTakenOffMaximum(bound, node)) continue;
    const ValueId maximum = bound.At(node).outputs[0];
    for (const NodeId reader : bound.ReadersOf(maximum)) {
      calls.push_back({.before = reader,
                       .input = maximum,
                       .name = std::string(bound.NameOf(maximum)) + ".detach",
                       .op = "detach"});
    }
  }
  return calls;
}

}  // namespace onnxfit

// Maxima that are taken off in front of an exponential, and boxes that are chosen, which
// TorchScript's files do not tell from those that are trained.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/lost_calls.h"

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

// Whether a topk made the indices, which are repeated for each number of a box.
bool AreOfTopK(const BoundGraph& bound, ValueId indices) {
  constexpr std::string_view kRepeating[] = {"Tile", "Expand", "Unsqueeze"};
  while (indices != kNoValue) {
    const NodeId maker = bound.graph().values[Index(indices)].producer;
    if (maker == kNoNode) return false;
    const Node& node = bound.At(maker);
    if (node.op_type == "TopK") return true;
    if (std::ranges::find(kRepeating, node.op_type) == std::end(kRepeating)) return false;
    indices = node.inputs[0];
  }
  return false;
}

// proposals.gather(1, topk.unsqueeze(-1).repeat(1, 1, 4)).detach(), boxes that a decoder begins
// with.
bool ChoosesBoxes(const BoundGraph& bound, NodeId gather) {
  constexpr int64_t kNumbersOfBox = 4;
  const Node& node = bound.At(gather);
  if (node.op_type != "GatherElements" || !IsNamedByTorchScript(node)) return false;
  const Dims& dims = bound.DimsOf(node.outputs[0]);
  return dims.size() == 3 && dims.back() == kNumbersOfBox && !IsOutput(bound, node.outputs[0]) &&
         AreOfTopK(bound, node.inputs[1]);
}

// Whether a module called so runs: what chooses boxes for the answer has none.
bool RunsDecoder(const ExporterMetadata& metadata) {
  return std::ranges::any_of(metadata.origins, [&](const NodeOrigin& origin) {
    for (ModuleId module = origin.module; module != kOutside;) {
      if (ChildOf(metadata.modules.NameOf(module)) == "decoder") return true;
      module = metadata.modules.CallerOf(module);
    }
    return false;
  });
}

// For all that read what `node` makes.
void Detach(const BoundGraph& bound, NodeId node, std::vector<LostCall>& calls) {
  const ValueId made = bound.At(node).outputs[0];
  for (const NodeId reader : bound.ReadersOf(made)) {
    calls.push_back({.before = reader,
                     .input = made,
                     .name = std::string(bound.NameOf(made)) + ".detach",
                     .op = "detach"});
  }
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
  std::optional<bool> has_decoder;  // asked where boxes are chosen
  for (NodeId node = 0; node < std::ssize(bound.graph().nodes); ++node) {
    const bool chooses = ChoosesBoxes(bound, node);
    if (chooses && !has_decoder) has_decoder = RunsDecoder(bound.metadata());
    if (IsTakenOffMaximum(bound, node) || (chooses && *has_decoder)) Detach(bound, node, calls);
  }
  return calls;
}

}  // namespace onnxfit

// x[:, a:b] = y, as TorchScript's exporter writes it.
#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/recover/rewrites.h"

namespace onnxfit {
namespace {

// All that makes `value` and nothing else; a node is asked for once for each of its readers.
std::set<NodeId> MadeFor(const BoundGraph& bound, ValueId value) {
  std::set<NodeId> made;
  std::vector<ValueId> asked = {value};
  while (!asked.empty()) {
    const Value& next = bound.graph().values[Index(asked.back())];
    const NodeId maker = next.producer;
    const auto is_inside = [&](NodeId reader) { return made.contains(reader); };
    const bool is_inner =
        asked.back() == value || std::ranges::all_of(bound.ReadersOf(asked.back()), is_inside);
    asked.pop_back();
    if (maker == kNoNode || next.is_output || !is_inner || !made.insert(maker).second) continue;
    for (const ValueId input : bound.At(maker).inputs) {
      if (input != kNoValue) asked.push_back(input);
    }
  }
  return made;
}

// Whether the exporter counts places itself: such nodes are in no module.
bool CountsPlaces(const BoundGraph& bound, ValueId places) {
  std::set<ValueId> seen;
  std::vector<ValueId> asked = {places};
  while (!asked.empty()) {
    const ValueId value = asked.back();
    asked.pop_back();
    const NodeId maker = bound.graph().values[Index(value)].producer;
    if (!seen.insert(value).second || maker == kNoNode) continue;
    const Node& node = bound.At(maker);
    if (node.op_type == "Range" && !IsNamedByTorchScript(node)) return true;
    if (node.op_type == "Shape") continue;
    std::ranges::copy_if(node.inputs, std::back_inserter(asked),
                         [](ValueId input) { return input != kNoValue; });
  }
  return false;
}

}  // namespace

std::optional<Rewritten> FindSliceWrite(const BoundGraph& bound, NodeId last) {
  const Node& node = bound.At(last);
  const ValueId places = node.inputs[1];
  const Dims& dims = bound.DimsOf(places);
  const bool is_whole = !dims.empty() && dims.back() == std::ssize(bound.DimsOf(node.inputs[0]));
  const NodeId joined = bound.Maker(places, "Concat");
  if (!IsNamedByTorchScript(node) || !is_whole || joined == kNoNode) return std::nullopt;
  if (!CountsPlaces(bound, places)) return std::nullopt;
  const std::set<NodeId> made = MadeFor(bound, places);
  Rewritten call = {"copy_slice", {node.inputs[0], node.inputs[2]}, last, {}};
  call.nodes.assign(made.begin(), made.end());
  call.nodes.push_back(last);
  return call;
}

}  // namespace onnxfit

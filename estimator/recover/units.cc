#include "estimator/recover/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/recover/device_values.h"

namespace onnxfit {
namespace {

class UnitFinder {
 public:
  UnitFinder(const BoundGraph& bound, const Roles& roles, const DeviceValues& values)
      : bound_(bound),
        values_(values),
        on_device_(FindDeviceIntegers(bound, roles)),
        unit_of_(bound.graph().nodes.size(), kNone) {}

  void AddCalls(const std::vector<Rewritten>& calls) {
    for (const Rewritten& call : calls) {
      const UnitKind kind = IsNumbers(call.last) ? UnitKind::kNumbers : UnitKind::kCall;
      Add({.kind = kind, .nodes = call.nodes, .at = call.last, .call = &call});
    }
  }

  void AddPutBack(std::vector<NodeId> nodes) {
    std::erase_if(nodes, [&](NodeId node) { return IsTaken(node); });
    if (nodes.empty()) return;
    Add({.kind = UnitKind::kPutBack, .nodes = nodes, .at = nodes.back()});
  }

  void AddNorms(const std::vector<AffineBatchNorm>& norms) {
    for (const AffineBatchNorm& norm : norms) {
      std::vector<NodeId> nodes = {norm.scale};
      if (norm.shift != kNoNode) nodes.push_back(norm.shift);
      if (std::ranges::any_of(nodes, [&](NodeId node) { return IsTaken(node); })) continue;
      Add({.kind = UnitKind::kBatchNorm, .nodes = nodes, .at = norm.scale, .norm = &norm});
    }
  }

  void AddNodes() {
    for (size_t i = 0; i < unit_of_.size(); ++i) {
      const auto node = static_cast<NodeId>(i);
      if (IsTaken(node)) continue;
      const UnitKind kind = IsNumbers(node) ? UnitKind::kNumbers : UnitKind::kNode;
      Add({.kind = kind, .nodes = {node}, .at = node});
    }
  }

  std::vector<Unit> Take() {
    std::ranges::sort(units_, {}, &Unit::at);
    return std::move(units_);
  }

 private:
  static constexpr int32_t kNone = -1;

  void Add(Unit unit) {
    for (const NodeId node : unit.nodes)
      unit_of_[Index(node)] = static_cast<int32_t>(units_.size());
    units_.push_back(std::move(unit));
  }

  bool IsTaken(NodeId node) const { return unit_of_[Index(node)] != kNone; }

  // All its results are known, and the device does not make them all the same.
  bool IsNumbers(NodeId node) const {
    return !on_device_[Index(node)] &&
           std::ranges::all_of(bound_.At(node).outputs, [&](ValueId value) {
             return value == kNoValue || values_.IsKnown(value);
           });
  }

  const BoundGraph& bound_;
  const DeviceValues& values_;
  std::vector<bool> on_device_;   // by node
  std::vector<int32_t> unit_of_;  // by node: index into units_
  std::vector<Unit> units_;
};

}  // namespace

std::vector<Unit> FindUnits(const BoundGraph& bound, const Roles& roles, const DeviceValues& values,
                            const std::vector<Rewritten>& calls,
                            const std::vector<NodeId>& put_back) {
  UnitFinder finder(bound, roles, values);
  finder.AddCalls(calls);
  finder.AddPutBack(put_back);
  finder.AddNorms(roles.affine);
  finder.AddNodes();
  return finder.Take();
}

std::vector<std::string> NotesOf(const Graph& graph, const std::vector<Rewritten>& calls) {
  std::map<std::string, std::pair<int, NodeId>> places;  // how many, the first
  for (const Rewritten& call : calls) {
    if (call.aten == kNoCall) continue;
    std::vector<std::string_view> ops;
    for (const NodeId node : call.nodes) ops.push_back(graph.nodes[Index(node)].op_type);
    const std::string what = fmt::format("{} run as {}", fmt::join(ops, " + "), call.aten);
    ++places.emplace(what, std::pair(0, call.last)).first->second.first;
  }
  std::vector<std::string> notes;
  for (const auto& [what, place] : places) {
    notes.push_back(fmt::format("{} x {}, the first at {}", place.first, what,
                                DisplayName(graph, place.second)));
  }
  return notes;
}

}  // namespace onnxfit

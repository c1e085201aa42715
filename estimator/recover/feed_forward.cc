#include "estimator/recover/feed_forward.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/libraries.h"
#include "estimator/program/module_names.h"

namespace onnxfit {
namespace {

// Tensors have the names of the model that was exported, with which those of its nodes may end.
bool IsOfFairseqBlock(const Graph& graph, std::string_view second) {
  if (!IsFairseqsSecondLayer(second)) return false;
  const std::string norm = FairseqsNorm(ParentOf(second));
  return std::ranges::any_of(
      graph.values, [&](const Value& value) { return value.name.find(norm) != std::string::npos; });
}

bool IsView(const Node& node) { return node.op_type == "Reshape" || node.op_type == "Transpose"; }

class BranchWalk {
 public:
  BranchWalk(const BoundGraph& bound, const NodeCalls& calls, bool takes_pointwise)
      : bound_(bound), calls_(calls), takes_pointwise_(takes_pointwise) {}

  bool IsLayer(NodeId node) const {
    return calls_.IsLinear(node) || (takes_pointwise_ && calls_.IsPointwise(node));
  }

  // The layer that alone makes `value`, but for views.
  NodeId LayerBehind(ValueId value) const {
    while (value != kNoValue && bound_.ReadersOf(value).size() == 1) {
      const NodeId node = bound_.graph().values[Index(value)].producer;
      if (node == kNoNode || IsLayer(node)) return node;
      if (!IsView(bound_.At(node))) return kNoNode;
      value = bound_.At(node).inputs[0];
    }
    return kNoNode;
  }

  // `value`, or what a scale makes it of.
  BranchEnd EndAt(NodeId reader, ValueId value) const {
    BranchEnd end = {LayerBehind(value), value, reader, true};
    if (end.layer != kNoNode) {
      end.is_plain = !calls_.IsPointwise(end.layer);
      return end;
    }
    const NodeId scale = ScaleOf(value);
    if (scale == kNoNode) return end;
    const Node& product = bound_.At(scale);
    const ValueId scaled = product.inputs[IsScale(product.inputs[1]) ? 0 : 1];
    return {LayerBehind(scaled), scaled, scale, false};
  }

 private:
  bool IsScale(ValueId value) const { return bound_.IsNumber(value) || bound_.IsStored(value, 1); }

  NodeId ScaleOf(ValueId value) const {
    NodeId scale = bound_.Inner(value, "Mul");
    if (scale == kNoNode) scale = bound_.Inner(value, "Div");
    if (scale == kNoNode || calls_.RewriteAt(scale) >= 0) return kNoNode;
    const Node& product = bound_.At(scale);
    const bool by_first = product.op_type == "Mul" && IsScale(product.inputs[0]);
    return by_first || IsScale(product.inputs[1]) ? scale : kNoNode;
  }

  const BoundGraph& bound_;
  const NodeCalls& calls_;
  bool takes_pointwise_;
};

// The one of two operands that a layer makes.
std::optional<BranchEnd> EndOfSum(const BoundGraph& bound, const Node& add, const BranchEnd& first,
                                  const BranchEnd& second) {
  const bool is_one = (first.layer == kNoNode) != (second.layer == kNoNode);
  const size_t side = first.layer == kNoNode ? 1 : 0;
  const ValueId other = add.inputs[1 - side];
  if (!is_one || bound.graph().values[Index(other)].initializer >= 0) return std::nullopt;
  return side == 0 ? first : second;
}

Hidden PastViews(const BoundGraph& bound, Hidden read) {
  for (NodeId node = bound.graph().values[Index(read.value)].producer;
       node != kNoNode && IsView(bound.At(node));
       node = bound.graph().values[Index(read.value)].producer) {
    read = {bound.At(node).inputs[0], node};
  }
  return read;
}

// Whether one forward, that of no Sequential, calls both layers, and may drop out in between.
bool ShareForward(const BoundGraph& bound, NodeId first, NodeId second) {
  const ModuleTree& modules = bound.metadata().modules;
  const ModuleId before = bound.metadata().ModuleOf(first);
  const ModuleId behind = bound.metadata().ModuleOf(second);
  const std::string& path = modules.PathOf(behind);
  if (IsUndroppedBlock(modules.PathOf(before), path) || IsOfFairseqBlock(bound.graph(), path)) {
    return false;
  }
  if (behind == kOutside || before == kOutside) return before == behind;
  const ModuleId caller = modules.CallerOf(behind);
  const bool is_listed =
      caller != kOutside && modules.NameOf(behind).starts_with(modules.NameOf(caller) + ".");
  return caller == modules.CallerOf(before) && !is_listed;
}

}  // namespace

std::optional<BranchEnd> FindBranchEnd(const BoundGraph& bound, const NodeCalls& calls, NodeId sum,
                                       bool attends) {
  const Node& add = bound.At(sum);
  if (add.op_type != "Add" || calls.RewriteAt(sum) >= 0) return std::nullopt;
  const BranchWalk plain(bound, calls, /*takes_pointwise=*/false);
  BranchEnd ends[2];
  for (const size_t side : {size_t{0}, size_t{1}}) {
    ends[side] = {plain.LayerBehind(add.inputs[side]), add.inputs[side], sum, true};
  }
  if (ends[0].layer != kNoNode || ends[1].layer != kNoNode) {
    return EndOfSum(bound, add, ends[0], ends[1]);
  }
  const BranchWalk walk(bound, calls, attends);
  return EndOfSum(bound, add, walk.EndAt(sum, add.inputs[0]), walk.EndAt(sum, add.inputs[1]));
}

std::optional<Hidden> FindHidden(const BoundGraph& bound, const NodeCalls& calls, NodeId layer) {
  const Graph& graph = bound.graph();
  const Hidden hidden = PastViews(bound, {calls.InputOf(layer), layer});
  const NodeId activation = graph.values[Index(hidden.value)].producer;
  if (activation == kNoNode || !calls.IsActivation(activation)) return std::nullopt;
  const Hidden made = PastViews(bound, {calls.InputOf(activation), activation});
  const NodeId first = graph.values[Index(made.value)].producer;
  const BranchWalk walk(bound, calls, calls.IsPointwise(layer));
  if (first == kNoNode || !walk.IsLayer(first) || !ShareForward(bound, first, layer)) {
    return std::nullopt;
  }
  return hidden;
}

}  // namespace onnxfit

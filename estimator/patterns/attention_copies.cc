// Copies that contiguous() makes and no node stands for.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "estimator/exporters/exporter_metadata.h"
#include "estimator/exporters/module_children.h"
#include "estimator/libraries/libraries.h"
#include "estimator/patterns/rewrites.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

constexpr size_t kBiasOfCall = 3;

// What is read of `value` behind views that nothing else reads.
ValueId BehindViews(const BoundGraph& bound, ValueId value) {
  constexpr std::string_view kViews[] = {"Unsqueeze", "Reshape"};
  while (bound.ReadersOf(value).size() == 1) {
    const Node& reader = bound.At(bound.ReadersOf(value)[0]);
    if (std::ranges::find(kViews, reader.op_type) == std::end(kViews)) break;
    value = reader.outputs[0];
  }
  return value;
}

// Whether `add` adds `mask` to the scores of an attention that is one call.
bool IsMaskOfAttention(const BoundGraph& bound, NodeId add, ValueId mask) {
  const Node& node = bound.At(add);
  if (node.op_type != "Add" || bound.ReadersOf(node.outputs[0]).size() != 1) return false;
  NodeId next = bound.ReadersOf(node.outputs[0])[0];
  while (bound.At(next).op_type != "MatMul") {
    const Node& passing = bound.At(next);
    const bool passes = passing.op_type == "Softmax" || passing.op_type == "Dropout";
    if (!passes || bound.ReadersOf(passing.outputs[0]).size() != 1) return false;
    next = bound.ReadersOf(passing.outputs[0])[0];
  }
  const std::optional<Rewritten> attention = FindAttention(bound, next);
  return attention.has_value() && attention->inputs[kBiasOfCall] == mask;
}

// proj[0], proj[1] and nothing else is read of `value`.
bool IsTakenApart(const BoundGraph& bound, ValueId value) {
  const std::span<const NodeId> readers = bound.ReadersOf(value);
  return readers.size() > 1 && std::ranges::all_of(readers, [&](NodeId reader) {
           const Node& node = bound.At(reader);
           return node.op_type == "Gather" && node.inputs[0] == value &&
                  IntAttribute(node, "axis", 0) == 0 && bound.DimsOf(node.inputs[1]).empty();
         });
}

// The call that copies what Transpose `last` makes.
Rewritten CopyBehind(const BoundGraph& bound, NodeId last) {
  const Node& transpose = bound.At(last);
  const ValueId rows = transpose.inputs[0];
  return {.aten = "contiguous",
          .inputs = {rows},
          .last = last,
          .nodes = {last},
          .before = {{.aten = "permute",
                      .inputs = {{.value = rows}},
                      .type = bound.TypeOf(transpose.outputs[0]),
                      .ints = IntsAttribute(transpose, "perm"),
                      .takes_place_of = 0}}};
}

// torch.cat((feature - x, x), dim=3), the edges of a graph's neighbourhoods, which everybody takes
// from DGCNN (WangYueFt/dgcnn, pytorch/model.py) and makes contiguous.
bool AreEdges(const BoundGraph& bound, ValueId value) {
  const NodeId cat = bound.Maker(value, "Concat");
  if (cat == kNoNode || bound.At(cat).inputs.size() != 2) return false;
  const NodeId difference = bound.Maker(bound.At(cat).inputs[0], "Sub");
  return difference != kNoNode && bound.At(difference).inputs[1] == bound.At(cat).inputs[1];
}

// The call that copies what `last`, a view, makes of `value`.
Rewritten CopyOfView(const BoundGraph& bound, NodeId last, ValueId value) {
  return {.aten = "contiguous",
          .inputs = {value},
          .last = last,
          .nodes = {last},
          .before = {{.aten = "view",
                      .inputs = {{.value = value}},
                      .type = bound.TypeOf(bound.At(last).outputs[0]),
                      .takes_place_of = 0}}};
}

bool IsPermutedTo(const BoundGraph& bound, NodeId id, const std::vector<int64_t>& perm) {
  const Node& node = bound.At(id);
  return node.op_type == "Transpose" && IntsAttribute(node, "perm") == perm;
}

// x.permute(0, 2, 1).reshape(n, c, h, w)
bool MakesMaps(const BoundGraph& bound, NodeId id) {
  const Node& node = bound.At(id);
  if (node.op_type != "Reshape" || bound.DimsOf(node.outputs[0]).size() != 4) return false;
  const NodeId maker = bound.Inner(node.inputs[0], "Transpose");
  return maker != kNoNode && IsPermutedTo(bound, maker, {0, 2, 1});
}

// x.unfold (-2, size, step).transpose (-2, -3), the windows joined by TorchScript's exporter.
bool SwapsWindows(const BoundGraph& bound, NodeId id) {
  if (!IsPermutedTo(bound, id, {0, 2, 1, 3})) return false;
  const NodeId windows = bound.Maker(bound.At(id).inputs[0], "Concat");
  return windows != kNoNode && FindUnfold(bound, windows).has_value();
}

std::optional<PermutedBy> HowPermuted(const BoundGraph& bound, NodeId id) {
  if (IsPermutedTo(bound, id, {0, 3, 1, 2})) return PermutedBy::kPermute;
  if (MakesMaps(bound, id)) return PermutedBy::kReshape;
  if (SwapsWindows(bound, id)) return PermutedBy::kWindows;
  if (IsPermutedTo(bound, id, {2, 0, 1, 3}) || IsPermutedTo(bound, id, {1, 0, 2}))
    return PermutedBy::kRows;
  return std::nullopt;
}

// Whether the module at `path` is called so, or has such a child ("a/b": a grandchild).
bool HasModule(const std::map<std::string_view, std::set<std::string_view>>& children,
               const std::string& path, std::string_view name) {
  const size_t slash = name.find('/');
  if (slash != name.npos) {
    const std::string inner = path.empty() ? std::string(name.substr(0, slash))
                                           : fmt::format("{}.{}", path, name.substr(0, slash));
    return HasModule(children, inner, name.substr(slash + 1)) &&
           HasModule(children, path, name.substr(0, slash));
  }
  if (!path.empty() && ChildOf(path) == name) return true;
  const auto module = children.find(path);
  return module != children.end() && module->second.contains(name);
}

}  // namespace

bool CopiesHeads(const BoundGraph& bound, ValueId q, ValueId key) {
  const auto behind = [&](ValueId value, std::string_view op_type) {
    const NodeId node = bound.Maker(value, op_type);
    return node == kNoNode ? value : bound.At(node).inputs[0];
  };
  const NodeId scale = bound.Maker(behind(behind(q, "Transpose"), "Reshape"), "Mul");
  if (scale == kNoNode || !bound.IsNumber(bound.At(scale).inputs[1])) return false;
  const NodeId layer = bound.Maker(behind(behind(key, "Transpose"), "Reshape"), "MatMul");
  return layer != kNoNode && CopiesHeads(ChildOf(bound.metadata().PathOf(layer)));
}

bool MovesLast(const std::vector<int64_t>& perm) {
  return !perm.empty() && perm.back() != static_cast<int64_t>(perm.size()) - 1;
}

std::optional<Rewritten> FindPackedProjection(const BoundGraph& bound, NodeId last) {
  const Node& squeeze = bound.At(last);
  const NodeId transpose = bound.Inner(squeeze.inputs[0], "Transpose");
  if (transpose == kNoNode || !IsTakenApart(bound, squeeze.outputs[0])) return std::nullopt;
  if (bound.Inner(bound.At(transpose).inputs[0], "Unsqueeze") == kNoNode) return std::nullopt;
  return CopyOfView(bound, last, squeeze.inputs[0]);
}

std::optional<Rewritten> FindBiasCopy(const BoundGraph& bound, NodeId last) {
  const Node& transpose = bound.At(last);
  if (!IsNamedByTorchScript(transpose) || !MovesLast(IntsAttribute(transpose, "perm"))) {
    return std::nullopt;
  }
  const ValueId bias = BehindViews(bound, transpose.outputs[0]);
  const std::span<const NodeId> readers = bound.ReadersOf(bias);
  const bool is_mask = !readers.empty() && std::ranges::all_of(readers, [&](NodeId add) {
    return IsMaskOfAttention(bound, add, bias);
  });
  if (!is_mask) return std::nullopt;
  return CopyBehind(bound, last);
}

std::vector<Rewritten> FindHeadCopies(const BoundGraph& bound) {
  std::vector<Rewritten> copies;
  for (size_t i = 0; i < bound.graph().nodes.size(); ++i) {
    const Node& node = bound.graph().nodes[i];
    if (node.op_type != "MatMul" || !IsNamedByTorchScript(node)) continue;
    const auto attention = FindAttention(bound, static_cast<NodeId>(i));
    if (!attention.has_value()) continue;
    const std::vector<ValueId>& read = attention->inputs;
    if (!CopiesHeads(bound, read[0], read[1])) continue;
    for (const ValueId heads : {read[0], read[2]}) {
      const NodeId transpose = bound.Maker(heads, "Transpose");
      if (transpose != kNoNode) copies.push_back(CopyBehind(bound, transpose));
    }
  }
  return copies;
}

std::vector<Rewritten> FindPermutedCopies(const BoundGraph& bound) {
  const auto children = ChildrenOfModules(bound);
  std::vector<Rewritten> copies;
  for (NodeId id = 0; id < std::ssize(bound.graph().nodes); ++id) {
    const Node& node = bound.At(id);
    const std::optional<PermutedBy> by = HowPermuted(bound, id);
    if (!by.has_value() || !IsNamedByTorchScript(node)) continue;
    const std::string& path = bound.metadata().PathOf(id);
    const auto has = [&](std::string_view name) { return HasModule(children, path, name); };
    const bool permutes = node.op_type == "Transpose";
    if (!CopiesPermuted(*by, has) && !(permutes && AreEdges(bound, node.inputs[0]))) continue;
    copies.push_back(permutes ? CopyBehind(bound, id) : CopyOfView(bound, id, node.inputs[0]));
  }
  return copies;
}

}  // namespace onnxfit

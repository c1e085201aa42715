// Norms by hand of which a file does not tell whether they compute in fp32.
#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/bound_graph.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/program/source_statement.h"

namespace onnxfit {
namespace {

// x / sqrt(mean(x ** 2) + ε), by its nodes, times a weight.
struct SpelledNorm {
  ValueId x = kNoValue;
  NodeId square = kNoNode;
  NodeId product = kNoNode;
  NodeId last = kNoNode;  // the product with the weight, or itself
};

class OpenNormFinder {
 public:
  OpenNormFinder(const BoundGraph& bound, std::vector<LostCall>& calls)
      : bound_(bound), calls_(calls) {
    for (const LostCall& call : calls) {
      known_.insert(call.before);
      known_.insert(call.behind);
    }
  }

  void Add() {
    for (NodeId node = 0; node < static_cast<NodeId>(bound_.graph().nodes.size()); ++node) {
      if (bound_.At(node).op_type != "ReduceMean" || !IsSpelled(node)) continue;
      const SpelledNorm norm = FindNormOf(node);
      if (norm.last != kNoNode && !IsKnown(norm)) AddNorm(norm);
    }
  }

 private:
  bool IsKnown(const SpelledNorm& norm) const {
    return known_.contains(norm.square) || known_.contains(norm.product) ||
           known_.contains(norm.last);
  }

  // The statement of the node in its own forward.
  StatementId StatementOf(NodeId node) const {
    const std::vector<StatementId>& frames = bound_.metadata().LinesOf(node).frames;
    return frames.empty() ? kNoStatement : frames.back();
  }
  // PyTorch's own norm, taken apart, is not.
  bool IsSpelled(NodeId mean) const {
    return StatementOf(mean) != kNoStatement &&
           LineOfNode(mean).text.find("mean(") != std::string::npos;
  }
  const SourceStatement& LineOfNode(NodeId node) const {
    return bound_.metadata().source.At(StatementOf(node));
  }
  bool AreOfOneForward(NodeId a, NodeId b) const {
    const ExporterMetadata& metadata = bound_.metadata();
    return metadata.ModuleOf(a) == metadata.ModuleOf(b) && StatementOf(b) != kNoStatement &&
           metadata.LinesOf(a).frames.size() == metadata.LinesOf(b).frames.size();
  }

  // The node of that type that alone reads what `node` makes, in the same forward.
  NodeId Following(NodeId node, std::string_view op_type) const {
    if (node == kNoNode) return kNoNode;
    const std::span<const NodeId> readers = bound_.ReadersOf(bound_.At(node).outputs[0]);
    const bool is_it = readers.size() == 1 && bound_.At(readers[0]).op_type == op_type;
    return is_it && AreOfOneForward(node, readers[0]) ? readers[0] : kNoNode;
  }

  SpelledNorm FindNormOf(NodeId mean) const {
    const NodeId square = bound_.graph().values[Index(bound_.At(mean).inputs[0])].producer;
    if (square == kNoNode || !IsSquare(square) || !AreOfOneForward(mean, square)) return {};
    const ValueId x = bound_.At(square).inputs[0];
    const NodeId root = Following(Following(mean, "Add"), "Sqrt");
    const NodeId inverse = Following(root, "Reciprocal");
    const NodeId product = inverse == kNoNode ? Following(root, "Div") : Following(inverse, "Mul");
    if (product == kNoNode || !Reads(product, x)) return {};
    const NodeId scaled = Following(product, "Mul");
    const bool has_weight = scaled != kNoNode && ReadsTensor(scaled);
    return {x, square, product, has_weight ? scaled : product};
  }

  bool IsSquare(NodeId node) const {
    const Node& square = bound_.At(node);
    if (square.op_type == "Pow") return bound_.NumberOf(square.inputs[1]) == 2;
    return square.op_type == "Mul" && square.inputs[0] == square.inputs[1];
  }
  bool Reads(NodeId node, ValueId value) const {
    return std::ranges::find(bound_.At(node).inputs, value) != bound_.At(node).inputs.end();
  }
  bool ReadsTensor(NodeId node) const {
    return std::ranges::any_of(bound_.At(node).inputs,
                               [&](ValueId value) { return bound_.IsStored(value, 1); });
  }

  // Where a cast back may stand that left no node: in a line of its own between the norm's, behind
  // them, or as what is returned.
  void AddNorm(const SpelledNorm& norm) {
    const bool is_between = norm.last != norm.product && HasLineBetween(norm.product, norm.last);
    if (!is_between && !MayCastBehind(norm.last)) return;
    const ValueId made = bound_.At(is_between ? norm.product : norm.last).outputs[0];
    const std::string name(bound_.NameOf(made));
    for (const NodeId reader : {norm.square, norm.product}) {
      calls_.push_back({.before = reader,
                        .input = norm.x,
                        .name = name + ".float",
                        .op = "to",
                        .is_open = true});
    }
    calls_.push_back({.before = is_between ? norm.last : kNoNode,
                      .input = made,
                      .name = name + ".cast",
                      .op = "type_as",
                      .behind = is_between ? kNoNode : norm.last,
                      .like = norm.x,
                      .is_open = true});
  }

  bool HasLineBetween(NodeId first, NodeId second) const {
    return LineOfNode(second).line > LineOfNode(first).line + 1;
  }

  bool MayCastBehind(NodeId last) const {
    const SourceStatement& line = LineOfNode(last);
    if (line.returns || line.targets.empty()) return false;
    const std::span<const NodeId> readers = bound_.AllReadersOf(bound_.At(last).outputs[0]);
    return std::ranges::all_of(readers, [&](NodeId reader) {
      return !AreOfOneForward(last, reader) || HasLineBetween(last, reader);
    });
  }

  const BoundGraph& bound_;
  std::vector<LostCall>& calls_;
  std::set<NodeId> known_;  // beside casts that are told
};

}  // namespace

bool IsOfLayer(const BoundGraph& bound, ValueId value) {
  constexpr std::string_view kViews[] = {"Reshape", "Transpose", "Identity", "Slice", "Split"};
  constexpr int kMostSteps = 8;
  for (int step = 0; step < kMostSteps && value != kNoValue; ++step) {
    const NodeId maker = bound.graph().values[Index(value)].producer;
    if (maker == kNoNode) return false;
    const Node& node = bound.At(maker);
    if (node.op_type == "MatMul" || node.op_type == "Gemm" || node.op_type == "Conv") return true;
    const bool is_biased = node.op_type == "Add" && bound.IsStored(node.inputs[1], 1);
    if (!is_biased && std::ranges::find(kViews, node.op_type) == std::end(kViews)) return false;
    value = node.inputs[0];
  }
  return false;
}

void AddOpenNorms(const BoundGraph& bound, std::vector<LostCall>& calls) {
  OpenNormFinder(bound, calls).Add();
}

}  // namespace onnxfit

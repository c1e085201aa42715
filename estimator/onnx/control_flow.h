// If and Loop become plain nodes, so that later rooms see a flat graph.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"

namespace onnx {
class GraphProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace onnxfit {

// Replaces each If by the branch that runs under `binding` where its condition follows
// from shapes and constants; otherwise by the branch whose outputs are larger, with a
// warning.  A Loop is replaced by its body, once for each trip; once alone, with a warning, where
// that are too many nodes.  How often it runs follows from shapes and constants, or is what --dim
// says of its first output, which is taken out of `binding`.  Returns `graph` itself where it has
// neither.  Throws Error as BindShapes does, and for a Loop that runs nobody knows how often.
// O(nodes), bodies and trips included.
Graph InlineControlFlow(Graph graph, DimBinding& binding, Warnings& warnings);

// Scans become Loops.  Returns `graph` itself where it has none.  O(nodes), bodies included.
// (scan_loops.cc)
Graph LoopsForScans(Graph graph);

// Of lists that SequenceConstruct makes, or SequenceInsert of an empty one, nodes read the
// elements: SequenceMap is its body for each, SequenceAt one of them, ConcatFromSequence a Concat,
// of elements with one dimension more where it stacks them.  Returns `graph` itself where it has
// none. O(nodes), bodies and elements included.
Graph UnrollSequences(Graph graph);

// --- Bodies written out; internal to the room onnx/ ----------------------------

// Appends nodes to a graph under names that nothing in it has: the body of an If or a Loop, written
// out among the nodes around it.
class BodyInliner {
 public:
  // `graph` has the initializers and all that is not replaced; `taken` are the names of
  // its values and nodes, before and after; `path` is what an error says.
  BodyInliner(onnx::GraphProto& graph, std::unordered_set<std::string> taken, int64_t opset,
              std::string path)
      : graph_(graph), taken_(std::move(taken)), opset_(opset), path_(std::move(path)) {}

  // `body` is one of the two branches of `node`.
  void InlineBranch(const onnx::NodeProto& node, const onnx::GraphProto& body);

  struct Iterations {
    std::optional<int64_t> trips;  // nullopt: nobody knows
    int64_t copies = 1;            // that are written out: all of them, one, or none
  };
  // What each iteration adds to a list is there as often as there are trips, where these are known
  // and not above kMaxTrips, else once.  Throws Error where lists exceed kMaxCopies.
  void InlineLoop(const onnx::NodeProto& node, const onnx::GraphProto& body, Iterations iterations);

  // A SequenceMap over lists that are constructed: the body once for each element.  `elements` by
  // input of the node; one name for a tensor, which all iterations read.
  void InlineMap(const onnx::NodeProto& node, const onnx::GraphProto& body,
                 const std::vector<std::vector<std::string>>& elements);

  // A ConcatFromSequence of these elements with a new axis.
  void InlineStack(const onnx::NodeProto& node, const std::vector<std::string>& elements);

  static constexpr int64_t kMaxTrips = 1024;
  static constexpr int64_t kMaxCopies = 1 << 17;  // of all lists together

 private:
  using Names = std::unordered_map<std::string, std::string>;  // in the body -> outside

  std::string Unique(const std::string& name, const std::string& prefix);
  void NameLocals(const onnx::GraphProto& body, const std::string& prefix, Names& names);
  void AppendBody(const onnx::GraphProto& body, const std::string& prefix, const Names& names);
  void AppendOutput(const std::string& from, const std::string& to, const Names& names);
  void AppendList(const std::vector<std::string>& parts, const std::string& to);
  void AppendIteration(const onnx::GraphProto& body, const std::string& prefix, int64_t trip,
                       Names& names);
  onnx::NodeProto& AppendConcat(const std::vector<std::string>& parts, const std::string& to,
                                int64_t axis);
  std::string AppendConstant(const std::string& name, onnx::TensorProto value);
  std::string AppendUnsqueezed(const std::string& from, const std::string& to, int64_t axis = 0);

  onnx::GraphProto& graph_;
  std::unordered_set<std::string> taken_;
  int64_t opset_;
  std::string path_;
  int64_t copies_ = 0;
};

}  // namespace onnxfit

// A graph that is inferred as far as it goes: what control_flow.cc asks before it writes bodies
// out. Internal to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/inferrer.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {

inline bool IsFlow(const Node& node) { return node.op_type == "If" || node.op_type == "Loop"; }

inline int64_t OnnxOpset(const Graph& graph) {
  for (const OpsetImport& opset : graph.opsets) {
    if (opset.domain.empty()) return opset.version;
  }
  return 0;
}

// What one output of an If or Loop is, as far as that is known.
struct Fact {
  onnx::TypeProto type;
  std::optional<HostTensor> elements;
  int64_t bytes = 0;  // 0 where they are not known
};

// The body of one If or Loop as a graph of its own, whose outputs are those of the node, and what
// is known of its inputs.
struct LoneBody {
  Graph graph;
  BoundInputs inputs = {};
  std::vector<std::optional<HostTensor>> elements = {};  // by input
};

// Infers what can be inferred: what an If or Loop makes is not known before somebody says it, nor
// what is computed from it.  Contradictions are left to BindShapes.
class PartialInferrer {
 public:
  PartialInferrer(const Graph& graph, const DimBinding& binding)
      : graph_(graph), inferrer_(graph, binding) {}
  explicit PartialInferrer(const LoneBody& body)
      : graph_(body.graph), inferrer_(body.graph, body.inputs) {
    for (size_t i = 0; i < body.elements.size(); ++i) {
      inferrer_.Assume(graph_.inputs[i], body.inputs.types[i], body.elements[i]);
    }
  }

  void Infer(NodeId id) {
    if (IsFlow(graph_.nodes[Index(id)]) || !inferrer_.InputsResolved(id)) return;
    try {
      inferrer_.Infer(id);
    } catch (const Error&) {
      return;
    }
  }

  // `made` by the node's outputs, left out ones aside.
  void Assume(NodeId id, const std::vector<Fact>& made) {
    size_t next = 0;
    for (const ValueId value : graph_.nodes[Index(id)].outputs) {
      if (value == kNoValue || next >= made.size()) continue;
      inferrer_.Assume(value, made[next].type, made[next].elements);
      ++next;
    }
  }

  std::vector<Fact> Outputs() const {
    std::vector<Fact> facts;
    for (const ValueId value : graph_.outputs) {
      const int64_t bytes = inferrer_.Resolved(value) ? BytesOf(inferrer_.TypeOf(value).tensor) : 0;
      facts.push_back({inferrer_.ProtoOf(value), inferrer_.KnownOf(value), bytes});
    }
    return facts;
  }

  // All outputs of a node, where they are known.
  int64_t BytesMadeBy(NodeId id) const {
    int64_t bytes = 0;
    for (const ValueId value : graph_.nodes[Index(id)].outputs) {
      if (value == kNoValue || !inferrer_.Resolved(value)) continue;
      bytes = CheckedAdd(bytes, BytesOf(inferrer_.TypeOf(value).tensor));
    }
    return bytes;
  }

  const Graph& graph() const { return graph_; }
  const Inferrer& get() const { return inferrer_; }

 private:
  const Graph& graph_;
  Inferrer inferrer_;
};

inline std::optional<int64_t> KnownScalar(const Inferrer& inferrer, const Node& node,
                                          size_t input) {
  if (input >= node.inputs.size() || node.inputs[input] == kNoValue) return std::nullopt;
  const std::optional<HostTensor>& known = inferrer.KnownOf(node.inputs[input]);
  if (!known.has_value() || known->is_float() || Numel(known->stored) != 1) return std::nullopt;
  return known->integers()[0];
}

// One If or Loop of a graph that is inferred so far.
struct Flow {
  PartialInferrer& partial;
  NodeId id;
  const std::unordered_map<std::string_view, ValueId>& by_name;  // of the graph's values

  const Graph& graph() const { return partial.graph(); }
  const Node& node() const { return graph().nodes[Index(id)]; }
  const onnx::NodeProto& proto() const { return graph().model->NodeOf(id); }
  std::string name() const { return Quote(DisplayName(graph(), id)); }
};

// --- Loops (loop_trips.cc) ------------------------------------------------------

struct Trips {
  std::optional<int64_t> most;  // nullopt: nobody knows
  bool is_exact = false;        // data may end it earlier where not
};

// How often a Loop runs: by its number of trips, and by its condition where that follows from
// shapes and constants.  O(nodes of the body × trips), of which it counts at most 2^15.
Trips TripsOf(const Flow& flow);

}  // namespace onnxfit

// Types and known elements of all values of a graph, node after node.  Internal to the
// room onnx/: BindShapes wants every value, control flow what it takes to choose a branch.
#pragma once

#include <google/protobuf/arena.h>
#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/dim_binding.h"
#include "estimator/onnx/schemas.h"
#include "estimator/onnx/shapes.h"
#include "estimator/onnx/wrong_size.h"

namespace onnxfit {

// --- Types in ONNX's own form ---------------------------------------------------

// The tensor inside a sequence or an optional.
const onnx::TypeProto& Innermost(const onnx::TypeProto& type);
// A tensor of a known type, each dimension of which is a number.
bool AllDimsKnown(const onnx::TypeProto& type);
// A dimension that is not known is -1; so is the only one of an unknown shape.
TensorType TensorTypeFrom(const onnx::TypeProto& type);
onnx::TypeProto ProtoFrom(DType dtype, const Dims& dims);

// --- One node, as ONNX's inference functions see it -----------------------------

// Types are numbers already, and the elements of inputs may be known.

// What sub-graphs (Scan) and function bodies are inferred in.  Made only for them, since
// it names every value of the graph.
struct OuterScope {
  std::unordered_map<std::string, int> opsets;                      // by domain
  std::unordered_map<std::string, onnx::TypeProto*> types_by_name;  // captures
};

// A dimension that data decide.
struct OpenSize {
  ValueId value = kNoValue;
  int axis = 0;      // -1: not even how many there are is known
  std::string name;  // as --dim has it, for axis -1 --shape
  std::optional<int64_t> most = {};
  std::optional<int64_t> example = {};  // where not any size holds
};

using ScopeMaker = std::function<const OuterScope&()>;

class NodeContext final : public onnx::InferenceContext {
 public:
  struct Input {
    const onnx::TypeProto* type = nullptr;             // null: left out
    const std::optional<HostTensor>* known = nullptr;  // null: left out
  };

  // All that is pointed at outlives the context.  `scope` is called for sub-graphs only.
  NodeContext(const onnx::NodeProto& node, std::vector<Input> inputs,
              std::vector<onnx::TypeProto*> outputs, const ScopeMaker& scope);
  ~NodeContext() override;

  // Attributes that the node leaves out then have the schema's values, as a function body
  // reads them.
  void UseDefaults(const onnx::OpSchema& schema) { defaults_ = &schema; }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override;
  size_t getNumInputs() const override { return inputs_.size(); }
  const onnx::TypeProto* getInputType(size_t index) const override;
  bool hasInput(size_t index) const override;
  const onnx::TensorProto* getInputData(size_t index) const override;
  size_t getNumOutputs() const override { return outputs_.size(); }
  onnx::TypeProto* getOutputType(size_t index) override;
  bool hasOutput(size_t index) override;
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override;
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override { return nullptr; }
  const onnx::TensorShapeProto* getSymbolicInput(size_t) const override { return nullptr; }

 private:
  struct SubGraph;

  const onnx::NodeProto& node_;
  std::vector<Input> inputs_;
  std::vector<onnx::TypeProto*> outputs_;
  const ScopeMaker& scope_;
  const onnx::OpSchema* defaults_ = nullptr;
  mutable std::vector<std::unique_ptr<onnx::TensorProto>> data_;  // by input, when asked for
  std::map<std::string, std::unique_ptr<SubGraph>> sub_graphs_;
};

// Runs the schema's inference function, or that of its body where it has only a body.
// Returns false where it has neither.  Throws onnx::InferenceError.
bool InferOutputs(const onnx::OpSchema& schema, const onnx::NodeProto& node, int64_t opset,
                  NodeContext& context);

// --- The shapes in lists of tensors ---------------------------------------------

// By element.  ONNX's types give all tensors of a list one shape, and none where they differ, as
// after a split into unequal parts.
using ListDims = std::vector<Dims>;

// Sizes of all lists of a graph together, where each part is a few more (PartCost), and each part
// is one more whenever a node reads all of them.  Lists beyond are not followed.
inline constexpr int64_t kMaxListSizes = 1 << 23;

// How many sizes a part of `rank` dimensions counts for.
constexpr int64_t PartCost(size_t rank) { return static_cast<int64_t>(rank) + 4; }

// What a node that makes a list (SplitToSequence, SequenceConstruct) puts into it; nullopt
// for other nodes, where that depends on data, and where it costs more than `left`, from which it
// is taken.
std::optional<ListDims> ListOf(const Call& call, int64_t& left);

// The shape of the tensor that a node takes from `list`, its input 0 (SequenceAt,
// ConcatFromSequence); nullopt as above.
std::optional<Dims> TakenFrom(const Call& call, const ListDims& list, int64_t& left);

// --- All nodes ------------------------------------------------------------------

// Elements that are read and made at once, before anybody asks for them; of what comes behind them
// nothing is known.
inline constexpr int64_t kMaxEvaluated = 1 << 25;

class Inferrer {
 public:
  // Inputs and initializers have their types afterwards.  `graph` outlives this.
  // Throws Error as BindShapes does.
  Inferrer(const Graph& graph, const DimBinding& binding);
  Inferrer(const Graph& graph, BoundInputs inputs);
  Inferrer(const Inferrer&) = delete;  // holds pointers into itself

  // What a node reads in place of one of its inputs.
  struct Substitute {
    TensorType type;
    std::optional<HostTensor> known = {};
  };
  using Substitutes = std::map<size_t, Substitute>;  // by input

  // `id` reads these instead of what its inputs are; its outputs are to be inferred (again).
  void Put(NodeId id, const Substitutes& substitutes);

  // `value` is that, whatever makes it.  What reads it is to be inferred afterwards.
  void Assume(ValueId value, onnx::TypeProto type, std::optional<HostTensor> known);

  // Infers one node after those that it reads.  What data decide of its outputs' sizes is what the
  // binding says, else the most that it can be; where there is no such limit, types stay
  // unresolved.  Throws SizeError where shapes contradict one another.
  void Infer(NodeId id);

  bool Resolved(ValueId value) const;
  bool DependsOnInputs(ValueId value) const { return from_inputs_[Place(value)]; }
  bool InputsResolved(NodeId id) const;
  bool OutputsResolved(NodeId id) const;
  // REQUIRES: Resolved(value).
  ValueType TypeOf(ValueId value) const;
  const std::optional<HostTensor>& KnownOf(ValueId value) const { return known_[Place(value)]; }
  // Empty where nothing is known.
  const onnx::TypeProto& ProtoOf(ValueId value) const { return TypeAt(value); }
  // For a graph that stands in this one: what the sizes that have names are, and no inputs.
  BoundInputs SizesByName() const;

  // REQUIRES: not OutputsResolved(id).
  [[noreturn]] void RefuseUnresolved(NodeId id);

  // Names of the binding that no size turned out to need; "" where there is none.
  std::string UnusedName() const;

  int64_t batch() const { return inputs_.batch; }
  const std::string& batch_place() const { return inputs_.batch_place; }
  // What was doubted so far: one warning for each kind of doubt and operator, and one for all sizes
  // that are the most that they can be.
  Warnings CollectWarnings() const;

 private:
  struct Operator {
    const onnx::OpSchema* schema = nullptr;  // null: not ONNX's
    const EvaluatorRow* evaluator = nullptr;
    const ContribRow* contrib = nullptr;  // where there is no schema
    const OperandRow* operands = nullptr;
    int64_t opset = 0;
    InputKinds kinds = {};
  };
  // Nodes in the order in which they were doubted.
  using Doubts = std::map<std::string, std::vector<NodeId>, std::less<>>;

  static size_t Place(ValueId value) { return static_cast<size_t>(value); }
  onnx::TypeProto& TypeAt(ValueId value) const { return *types_[Place(value)]; }
  const Node& NodeAt(NodeId id) const { return graph_.nodes[Index(id)]; }

  // What node `id` reads as its input `i`, which it has.
  const onnx::TypeProto& TypeRead(NodeId id, size_t i) const;
  const std::optional<HostTensor>& KnownRead(NodeId id, size_t i) const;

  void AddInputs();
  void AddInitializers();
  Operator FindOperator(const Node& node) const;
  const Operator& OperatorOf(const Node& node);
  void CheckOutputs(NodeId id, const Operator& op) const;
  void CheckKinds(NodeId id, const Operator& op) const;
  Operands OperandsOf(NodeId id) const;
  void CheckOperands(NodeId id, const Operator& op);
  [[noreturn]] void RefuseInputs(NodeId id, const Operator& op, const char* reason) const;
  void InferTypes(NodeId id, const Operator& op);
  std::vector<NodeContext::Input> ContextInputs(NodeId id) const;
  void Evaluate(NodeId id, const Operator& op);
  bool HasWhatItNeeds(NodeId id, const EvaluatorRow& row) const;
  Call CallOf(NodeId id, const Operator& op) const;
  void Keep(NodeId id, ValueId value, HostTensor tensor);
  TensorType TensorTypeOf(ValueId value) const;

  void FollowLists(NodeId id, const Operator& op);

  // --- Sizes that data decide (inferrer_bounds.cc) ---
  void TakeBounds(NodeId id);
  void GiveRank(NodeId id, size_t output);
  void KeepSizes(NodeId id, size_t output);
  std::optional<int64_t> JoinedElement(ValueId list, int64_t place) const;
  std::optional<int64_t> ListedSize(NodeId id, int axis) const;
  const onnx::TypeProto* StoredTypeOf(ValueId value);
  const onnx::TensorShapeProto::Dimension* StoredDim(ValueId value, int axis);
  std::optional<int64_t> StoredSize(ValueId value, int axis);
  std::optional<int64_t> BoundOf(const OpenSize& open, const std::string& by_place) const;
  std::optional<int64_t> MostScattered(NodeId id, ValueId value) const;
  void TakeBound(NodeId id, const OpenSize& open);
  void TakeMost(NodeId id, const OpenSize& open);
  std::vector<OpenSize> OpenSizesOf(NodeId id);
  void Assume(const OpenSize& open, int64_t size);
  std::vector<std::string> FlagsFrom(NodeId first);
  bool TryInfer(NodeId id);

  void CheckReshape(NodeId id) const;
  void CheckDims(NodeId id) const;

  bool InferContrib(NodeId id, const ContribRow* row);
  void Believe(NodeId id);
  NodeId GuessBehind(NodeId id) const;
  bool BelieveStored(ValueId value);
  void CollectStored();
  const OuterScope& Scope();

  std::vector<std::string> GivenInFrontOf(NodeId id) const;
  std::string HintOnSizes(NodeId id) const;
  std::string DoubtText(std::string_view kind, const std::vector<NodeId>& nodes) const;
  [[noreturn]] void RefuseGuess(NodeId guess, NodeId id, const std::string& reason) const;
  [[noreturn]] void Refuse(NodeId id, std::string text, std::string hint) const;
  [[noreturn]] void Refuse(NodeId id, SizeConflict conflict, std::string hint,
                           std::string detail = {}) const;

  const Graph& graph_;
  BoundInputs inputs_;
  google::protobuf::Arena arena_;                 // of types_, freed at once
  std::vector<onnx::TypeProto*> types_;           // by ValueId
  std::vector<std::optional<HostTensor>> known_;  // by ValueId
  std::unordered_map<ValueId, ListDims> lists_;   // sequences whose elements are told apart
  int64_t list_sizes_left_ = kMaxListSizes;
  std::vector<bool> from_inputs_;  // by ValueId: depends on a graph input
  std::vector<NodeId> guessed_;    // by ValueId: the node whose shape was guessed, kNoNode: none
  std::vector<onnx::TypeProto> left_out_;  // of outputs that a node leaves out
  std::map<std::pair<std::string_view, std::string_view>, Operator> operators_;
  // By node and input; its type as ONNX has it, what is known of it.
  std::map<std::pair<NodeId, size_t>, std::pair<onnx::TypeProto, std::optional<HostTensor>>> put_;
  std::optional<std::unordered_map<std::string_view, const onnx::TypeProto*>> stored_;
  std::set<std::string, std::less<>> used_names_;  // of the binding's inner sizes
  std::map<std::string, int64_t> taken_;           // sizes that are the most that they can be
  std::optional<OuterScope> scope_;
  ScopeMaker make_scope_;
  Doubts doubts_;
  int64_t evaluated_ = 0;  // elements
  int64_t looked_at_ = 0;  // likewise, by CheckOperands
};

}  // namespace onnxfit

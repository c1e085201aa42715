// From ONNX nodes to ATen calls, one row an operator.  Internal to the room recover/.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/settings.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/shapes.h"
#include "estimator/program/program_writer.h"
#include "estimator/recover/lost_calls.h"
#include "estimator/recover/lost_rotary.h"
#include "estimator/recover/lost_stochastic_depth.h"
#include "estimator/recover/rewrites.h"
#include "estimator/recover/roles.h"

namespace onnxfit {

struct LoweringRow;

// One node of the file after the other.
class Lowering : public ProgramWriter {
 public:
  Lowering(const Graph& graph, const ExporterMetadata& metadata, const Shapes& shapes,
           const Roles& roles, const TrainingSettings& settings);

  // Lowers every node that is not host arithmetic, by its row.
  void LowerNodes();

  // --- for the functions in the rows ---

  const Graph& graph() const { return graph_; }
  const TensorType& TypeOf(ValueId value) const;

  // A number or a list of numbers that lives on the host: known from shapes and
  // constants, or a scalar constant.
  bool IsHost(ValueId value) const;
  bool IsParameter(ValueId value) const;
  // A tensor that the file holds and that is none of the module's.
  bool IsMadeOfNumbers(ValueId value) const;
  // The integers of a host value, or null.
  const KnownTensor* Known(ValueId value) const;
  // The float that `value` is known to be.
  std::optional<double> KnownNumber(ValueId value) const;

  // Whether a Dropout does anything: in training, with p above 0.
  bool DropsOut(const Node& node) const;

  // The tensor that `value` is on the device.  A host value that is needed there is made
  // by a call "constant" first.  kNoName for kNoValue.
  NameId TensorOf(ValueId value);
  // The call that `node` came from, as torch.export names it: "aten.clone.default", or "".
  std::string_view TargetOf(const Node& node) const;
  // The nodes that read `value`, in the graph's order.
  std::vector<const Node*> ReadersOf(ValueId value) const;
  // A name for a result of the running node.
  NameId NewResult(ValueId value);
  // `value` is what a call has made as `name`.
  void Bind(ValueId value, NameId name);
  // `result` is another name of what `value` is, a tensor or a number: no call.
  void Alias(ValueId result, ValueId value);
  // The batch norm that was folded into the convolution `node`, or null.
  const FoldedBatchNorm* FoldedInto(const Node& node) const;
  // A parameter or buffer that the file does not hold, by its name.
  NameId LostTensor(const std::string& name) const { return lost_.at(name); }
  bool HasLostTensor(const std::string& name) const { return lost_.contains(name); }
  // torch.export says of such a node that it is the batch norm: the call that follows is
  // the convolution beside it.
  void EnterConvolutionOf(const FoldedBatchNorm& folded);
  // The calls that follow are those of module `name`, beside the running one.
  void EnterSibling(const std::string& name);

  // The call that follows is held as long as its first reader needs it.
  void EnterReaderOf(ValueId value);

  // A call of an operator without a row.
  void LowerUnknown(const Node& node);

  // --- for BuildProgram ---

  // How this run drops out: in place, if it is told so.
  std::string_view DropoutOp() const {
    return settings_.assumed.in_place_dropout ? "dropout_" : "dropout";
  }

  // What messages call the calls that follow.
  void SetPlace(std::string place, std::vector<std::string> scope = {});
  Program TakeProgram();

 private:
  bool FitsRow(const Node& node, const LoweringRow& row) const;
  bool IsFolded(ValueId value, std::string_view call) const;
  NameId MakeConstant(ValueId value);
  void EnterCaller();
  NameId CountPositions(ValueId value);
  NameId EmbedPositions(ValueId value, const std::string& table);
  std::string NameInLine(ValueId value) const;
  void AddModuleTensors(const Roles& roles);
  NameId AddTensor(const ModuleTensor& tensor);
  void AddParameters(const Roles& roles);
  std::set<NodeId> FindOutOfPlace() const;
  std::vector<std::string> ScopeFor(NodeId id);
  std::vector<std::string> ScopeAround(NodeId id);
  std::set<std::string> FindOutsideAutocast() const;
  void AddInputs();
  bool RunsOnHost(const Node& node) const;
  void PlanRewrites(const Roles& roles);
  void NoteRewrites();
  void PlanLostCalls(const Roles& roles);
  std::vector<LostCall> LostCalls(const Roles& roles);
  bool DropsOutElsewhere(bool is_traced) const;
  struct DropoutPlace {
    std::vector<std::string> names;  // that a glob may call it
    bool never = false;              // by its library's default
    bool is_rare = false;            // told alone
  };
  void DecideDropouts(bool elsewhere, std::vector<LostCall>& calls,
                      const std::vector<size_t>& attention);
  void DoubtDropouts(const std::vector<DropoutPlace>& places);
  std::vector<bool> DropsOutAt(const std::vector<DropoutPlace>& places, bool elsewhere) const;
  int64_t KeptByDropout(const Dims& dims) const;
  void AssumeDropouts(const std::map<std::string, int64_t>& dropouts, NodeId first);
  void PlanStochasticDepths();
  void PutCallsBack(NodeId node);
  void PutCopiesOfInputs();
  void PutCallsBehind(NodeId node);
  NameId PutBack(const LostCall& lost);
  void EnterCast();
  void EnterLost(const LostCall& lost);
  void EnterDropoutBehind(const LostCall& lost);
  StatementId LineOfMaker(ValueId value, size_t level);
  // The frames of a node's call that the file shows, the innermost last.
  std::vector<StatementId> FramesOf(const Node& node);
  // A statement of its own beside `statement`, which binds `targets`.
  StatementId Beside(StatementId statement, std::vector<std::string> targets);
  NameId Repeat(const LostCall& lost);
  void ReadTensorsOf(const std::string& module, AtenCall& call);
  void RepeatShared(NodeId node);
  NameId RepeatIn(ValueId value, const std::vector<std::string>& twin);
  void PutStochasticDepthBack(NodeId node);
  void PlanLostRotary();
  void PutRotaryBack(NodeId node);
  bool IsOfRotary(const LostCall& lost) const;
  NameId MakePositionIds();
  NameId MakeRotaryAngles(NameId position_ids);
  NameId MakeRotaryTable(std::string_view function, NameId angles);
  void BindRotary(const std::vector<ValueId>& values, NameId table);
  NameId MakeStep(std::string_view op, std::vector<NameId> inputs, const TensorType& type,
                  std::vector<int64_t> ints = {});
  void EnterRotary(SourceStatement statement);
  void EnterRotaryCaller(SourceStatement statement);
  // While one node is lowered, `value` is what a call that was put back made of it.
  void Hide(ValueId value, NameId by);
  void ShowHidden();
  DType TypeOfResult(const Node& node) const;
  bool IsKnown(ValueId value) const;
  void LowerNode(const Node& node);
  bool LowerAffine(const Node& node);
  void LowerRewritten(const Rewritten& rewritten);
  NameId OperandOf(ValueId value);
  std::vector<NameId> EmitHidden(const Rewritten& rewritten);
  void NoteIfComputed(ValueId value);

  const Node& At(NodeId node) const { return graph_.nodes[static_cast<size_t>(node)]; }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  std::map<std::string, NameId> lost_;
  std::map<ValueId, NameId> views_;  // initializers that are views of lost buffers
  std::optional<std::pair<ValueId, std::string>> table_rows_;
  std::unordered_map<const Node*, const FoldedBatchNorm*> folded_;
  std::unordered_map<const Node*, const AffineBatchNorm*> affine_;  // by Mul and Add
  std::vector<std::string> last_scope_;   // of the nodes before, the last that has one
  NodeId next_scoped_ = 0;                // the first behind that has one
  std::vector<StatementId> node_frames_;  // of the running node
  // By what the exporter writes of them: the frames that nodes have.
  std::unordered_map<std::string_view, std::vector<StatementId>> frames_of_;
  std::multimap<ValueId, const Node*> readers_;
  std::vector<NameId> names_;  // by ValueId, kNoName until it has one
  std::vector<Rewritten> rewrites_;
  std::vector<int32_t> rewrite_of_;              // by NodeId: index of the rewrite that ends here
  std::multimap<NodeId, LostCall> lost_calls_;   // by the node that reads them
  std::multimap<NodeId, LostCall> lost_behind_;  // by the node behind which they run
  std::map<NodeId, ValueId> stochastic_depths_;  // residual sum -> branch
  std::map<std::string, NameId> put_back_;       // results of those put back
  std::optional<LostRotary> rotary_;
  std::map<std::pair<ValueId, std::vector<std::string>>, NameId> shared_;  // by reader's scope
  std::vector<std::pair<ValueId, NameId>> hidden_;  // what the running node does not see
  std::vector<bool> runs_on_device_;                // by NodeId: though its results are known
  std::vector<bool> consumed_;                      // by NodeId: inside of a rewrite
  std::vector<bool> is_parameter_;                  // by ValueId
  std::vector<bool> follows_parameter_;             // by value: a float that one feeds
  std::vector<bool> is_scalar_constant_;            // by ValueId: a float number
  std::set<std::string> further_results_;           // operators that were warned of
};

inline constexpr int8_t kOptional = -1;
inline constexpr int8_t kAnyRank = -2;

struct LoweringRow {
  std::string_view op_type;
  std::string_view aten;
  void (*lower)(Lowering&, const Node&, std::string_view aten);
  std::string_view aten_of_scalar = {};        // where one operand is a number
  std::string_view aten_of_first_scalar = {};  // where it is the first: 1 / x
  // What ONNX does not check: the dimensions of inputs that the row needs, beside its first
  // result.  A node without them is an unknown operator.
  std::array<int8_t, 4> ranks = {kOptional, kOptional, kOptional, kOptional};
};

// What many rows do.  The first input is the tensor, and what else the node has are settings:
void LowerUnary(Lowering& lowering, const Node& node, std::string_view aten);
// every input is a tensor.
void LowerAll(Lowering& lowering, const Node& node, std::string_view aten);
// kNoValue where the node has fewer inputs.
ValueId InputOf(const Node& node, size_t i);

// The row of an operator of ONNX's own domain, or null.  O(1).
const LoweringRow* FindLowering(std::string_view op_type);

// The row of an operator that is several calls (lowering_fused.cc), or null.  O(rows).
const LoweringRow* FindFusedLowering(std::string_view op_type);

}  // namespace onnxfit

// From units to ATen calls: what units share while they are lowered, the writer that each of them
// gets, and the rows of the tables.  Internal to the room recover/.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/onnx/graph.h"
#include "estimator/recover/device_values.h"
#include "estimator/recover/findings.h"
#include "estimator/recover/units.h"

namespace onnxfit {

// What all units of a file share while they are lowered.
struct Recovery {
  // All must outlive it.  Throws Error as DeviceValues does.
  Recovery(const Findings& found, const Roles& roles_of_tensors, const TrainingSettings& settings);

  const BoundGraph& bound;
  const Roles& roles;
  ProgramWriter writer;
  DeviceValues values;
  std::map<NodeId, const FoldedBatchNorm*> folded;  // by convolution
  std::set<std::string> outside_autocast;           // paths of modules
  std::set<std::string> further_results = {};       // operators that were warned of
  std::set<NameId> unread = {};                     // what runs although no output needs it
};

class UnitWriter {
 public:
  UnitWriter(Recovery& recovery, CallPlace place)
      : recovery_(&recovery), place_(std::move(place)) {}

  // For the same unit's calls elsewhere.
  UnitWriter At(CallPlace place) const { return {*recovery_, std::move(place)}; }
  const CallPlace& place() const { return place_; }
  // The place beside it in module `name`: its caller's forward calls both.
  CallPlace Beside(const std::string& name) const;

  const BoundGraph& bound() const { return recovery_->bound; }
  const Graph& graph() const { return recovery_->bound.graph(); }
  const Roles& roles() const { return recovery_->roles; }
  DeviceValues& values() const { return recovery_->values; }
  Program& program() const { return recovery_->writer.program(); }
  const TrainingSettings& settings() const { return recovery_->writer.settings(); }
  bool trains() const { return recovery_->writer.trains(); }

  const TensorType& TypeOf(ValueId value) const { return recovery_->bound.TypeOf(value); }
  TensorType WithPrecision(TensorType type) const {
    return recovery_->writer.WithPrecision(std::move(type));
  }
  // The call that `node` came from, as torch.export names it: "aten.clone.default", or "".
  std::string_view TargetOf(const Node& node) const;
  // The batch norm that was folded into the convolution `node`, or null.
  const FoldedBatchNorm* FoldedInto(const Node& node) const;

  // Whether a Dropout does anything: in training, with p above 0.
  bool DropsOut(const Node& node) const;
  // How this run drops out: in place, if it is told so.
  std::string_view DropoutOp() const {
    return settings().assumed.in_place_dropout ? "dropout_" : "dropout";
  }

  // The tensor that `value` is on the device.  A host value that is needed there is made by a call
  // "constant" first.  kNoName for kNoValue.
  NameId TensorOf(ValueId value);
  // A name for a result of the unit.
  NameId NewResult(ValueId value);
  NameId NewName(std::string name, const TensorType& type) {
    return recovery_->writer.NewName(std::move(name), type);
  }
  // `result` is another name of what `value` is, a tensor or a number: no call.
  void Alias(ValueId result, ValueId value);

  void Emit(std::string_view op, std::vector<NameId> inputs, std::vector<NameId> outputs,
            std::vector<int64_t> ints = {});
  // The same, with a result of this type.
  NameId Make(std::string_view op, std::vector<NameId> inputs, std::string name,
              const TensorType& type, std::vector<int64_t> ints = {});
  // `name` is made although no output needs it.
  void RunUnread(NameId name) { recovery_->unread.insert(name); }
  // A call of an operator without a row.
  void LowerUnknown(const Node& node);
  void EmitUnknown(std::string_view name, std::vector<NameId> inputs, std::vector<NameId> outputs);
  // Whether calls run under torch.autocast(enabled=False) here.
  bool LeavesAutocast() const { return WithAutocast().leaves_autocast; }

 private:
  void WarnOfFurtherResult(ValueId value);
  CallPlace WithAutocast() const;

  Recovery* recovery_;
  CallPlace place_;
};

// Writes the calls of a unit: by its kind, at the writer's place.
void LowerUnit(UnitWriter& writer, const Unit& unit);

// --- Rows, one an operator ------------------------------------------------------------------

inline constexpr int8_t kOptional = -1;
inline constexpr int8_t kAnyRank = -2;

struct LoweringRow {
  std::string_view op_type;
  std::string_view aten;
  void (*lower)(UnitWriter&, const Node&, std::string_view aten);
  std::string_view aten_of_scalar = {};        // where one operand is a number
  std::string_view aten_of_first_scalar = {};  // where it is the first: 1 / x
  // What ONNX does not check: the dimensions of inputs that the row needs, beside its first
  // result.  A node without them is an unknown operator.
  std::array<int8_t, 4> ranks = {kOptional, kOptional, kOptional, kOptional};
};

// The calls of `node` by its row, or as an unknown operator.
void LowerNode(UnitWriter& unit, const Node& node);

// All of ONNX's own domain (lowering_table.cc).
std::span<const LoweringRow> LoweringRows();
// The row of an operator of ONNX's own domain, or null.  O(1).
const LoweringRow* FindLowering(std::string_view op_type);

// The row of an operator that is several calls, or null (lowering_fused.cc).  O(rows).
const LoweringRow* FindFusedLowering(std::string_view op_type);

// Writes a call that a library makes otherwise than the file says, by the line that it was made in
// (lowering_lines.cc): false where it is as the file says.
bool LowerByLine(UnitWriter& unit, const Rewritten& call);

// Writes a split of parameters of a normal distribution, of which `mean` alone is read, and what
// else is made of them, where its line calls for such a one: else false.
bool LowerPosterior(UnitWriter& unit, const Node& node, ValueId mean);

// What has the type that torch.zeros (…, dtype=x.dtype) and its like are told under autocast, most
// likely what the result of `node` will be joined with; kNoName where it is in fp32.
NameId GiverOfType(const UnitWriter& unit, const Node& node);

// y of "one_hot(x).to(y.dtype)" under autocast, which the file has in fp32; kNoName of other casts,
// and where the forward does not bind y.  O(nodes).
NameId GiverToCast(const UnitWriter& unit, const Node& cast);

// --- What rows do ---------------------------------------------------------------------------

// kNoValue where the node has fewer inputs.
ValueId InputOf(const Node& node, size_t i);

// The first input is the tensor, and what else the node has are settings:
void LowerUnary(UnitWriter& unit, const Node& node, std::string_view aten);
// every input is a tensor.
void LowerAll(UnitWriter& unit, const Node& node, std::string_view aten);

// A batch norm of `module`, whose tensors the file does not hold, that makes `result` of `input`.
void EmitBatchNorm(UnitWriter& unit, NameId input, const std::string& module, ValueId result);

// Views and parts of tensors (lowering_views.cc).
//
// Where a call writes over a view, x of "F.relu_(x.flatten(1))", a graph without such writes makes
// the base anew of its result, and of that the view: two views on the call's own line, which shows
// none.  PyTorch makes neither.
void LowerReshape(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSplit(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSlice(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSplitToSequence(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSequenceAt(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerGather(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerTopK(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerScatter(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerPlaces(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerQuantized(UnitWriter& unit, const Node& node, std::string_view aten);

// With the batch norm that was folded into it, if there is one (lowering_convolution.cc).
void LowerConvolution(UnitWriter& unit, const Node& node, std::string_view aten);

}  // namespace onnxfit

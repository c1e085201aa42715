// Writes the calls of one unit, at its place.  What a row of the lowering tables gets.  Internal to
// the room recover/.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/recover/device_values.h"

namespace onnxfit {

// What all units of a file share while they are lowered.
struct Recovery {
  // All must outlive it.  Throws Error as DeviceValues does.
  Recovery(const BoundGraph& bound_graph, const Roles& roles_of_tensors,
           const TrainingSettings& settings);

  const BoundGraph& bound;
  const Roles& roles;
  ProgramWriter writer;
  DeviceValues values;
  std::map<NodeId, const FoldedBatchNorm*> folded;  // by convolution
  std::set<std::string> outside_autocast = {};      // paths of modules
  std::set<std::string> further_results = {};       // operators that were warned of
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
  TensorType WithPrecision(TensorType type) const { return recovery_->writer.WithPrecision(type); }
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
  // A call of an operator without a row.
  void LowerUnknown(const Node& node);

 private:
  void WarnOfFurtherResult(ValueId value);
  CallPlace WithAutocast() const;

  Recovery* recovery_;
  CallPlace place_;
};

// A tensor that the file holds as numbers and PyTorch makes on the device, at the unit's place or
// its caller's (made_constants.cc).
NameId MakeConstant(UnitWriter unit, ValueId value);

}  // namespace onnxfit

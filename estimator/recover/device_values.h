// What the values of a graph are while its units are lowered: tensors on the device by the names
// that calls give them, or numbers of the host.  Internal to the room recover/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/exporters/bound_graph.h"
#include "estimator/parameters/roles.h"
#include "estimator/writer/program_writer.h"

namespace onnxfit {

class DeviceValues {
 public:
  // Declares the module's parameters and buffers, then the graph's inputs.  All must outlive it.
  // Throws Error where a glob of settings.freeze picks no parameter.  O(values).
  DeviceValues(const BoundGraph& bound, const Roles& roles, ProgramWriter& writer);

  const TensorType& TypeOf(ValueId value) const { return bound_.TypeOf(value); }
  // The tensor that `value` is; kNoName where it has none, or none yet.
  NameId NameOf(ValueId value) const { return names_[static_cast<size_t>(value)]; }
  // The buffer of which an initializer is a view that the exporter computed; else kNoName.
  NameId ViewedBy(ValueId value) const;
  // A parameter or buffer that the file does not hold, by its name.
  NameId LostTensor(const std::string& name) const { return lost_.at(name); }
  std::optional<NameId> FindLostTensor(const std::string& name) const;

  // A number or a list of numbers that lives on the host: known from shapes and constants, or a
  // scalar constant.
  bool IsHost(ValueId value) const;
  // Its elements, or the one float that it is, follow from shapes and constants.
  bool IsKnown(ValueId value) const;
  // A float that a parameter feeds, or one itself.  REQUIRES: `value` is not kNoValue.
  bool FollowsParameter(ValueId value) const {
    return follows_parameter_[static_cast<size_t>(value)];
  }
  bool IsParameter(ValueId value) const;
  // A tensor that the file holds and that is none of the module's.
  bool IsMadeOfNumbers(ValueId value) const;
  // Of so few elements that it is an argument of calls, a number of Python's.
  bool IsNumber(ValueId value) const { return IsHost(value) && Numel(TypeOf(value).dims) <= 1; }
  // The float that `value` is known to be.
  std::optional<double> KnownNumber(ValueId value) const;

  // `value` is what a call has made as `name`.
  void Bind(ValueId value, NameId name);
  // `result` is a number, as `number` is.
  void TakeAsNumber(ValueId result);
  // `result` is another name of `value`, which the call made that has given it `name`.
  void Alias(ValueId result, ValueId value, NameId name);
  // A view of `name` is made wherever `value` is read.
  void BindViews(ValueId value, NameId name) { views_[value] = name; }

  // Until ShowHidden, `value` is what a call that was put back made of it.
  void Hide(ValueId value, NameId by);
  void ShowHidden();
  // `name` for now; what it was.
  NameId Exchange(ValueId value, NameId name);

  // By value of the graph.
  std::vector<NameId> TakeNames() { return std::move(names_); }

 private:
  void AddModuleTensors(const Roles& roles, ProgramWriter& writer);
  NameId AddTensor(const ModuleTensor& tensor, ProgramWriter& writer);

  const BoundGraph& bound_;
  std::vector<NameId> names_;                       // by ValueId, kNoName until it has one
  std::vector<bool> is_parameter_;                  // by ValueId
  std::vector<bool> follows_parameter_;             // by ValueId: a float that one feeds
  std::vector<bool> is_scalar_constant_;            // by ValueId: a float number
  std::map<std::string, NameId> lost_;              // tensors that the file does not hold
  std::map<ValueId, NameId> views_;                 // initializers that are views of buffers
  std::vector<std::pair<ValueId, NameId>> hidden_;  // in the order in which they were
};

// Integers that PyTorch computes on the device, although they follow from shapes and
// constants.

// By NodeId: whether a node whose results are known runs on the device all the same.  What
// leads from torch.arange (Range) or from a buffer of the module to the indices of an
// embedding, or to floats, does: position ids, T5's buckets of relative positions.  Sizes do not,
// nor do masks, which tracing alone computes (attention.cc).  O(nodes).
std::vector<bool> FindDeviceIntegers(const BoundGraph& bound, const Roles& roles);

}  // namespace onnxfit

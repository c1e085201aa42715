#include "estimator/recover/device_values.h"

#include <algorithm>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

// By value: whether it is one of `parameters` (by value), or a float that one of them feeds, which
// the file would let one compute, but training changes: an exponential of a parameter of one
// element.  O(nodes).
std::vector<bool> FloatsFedBy(const BoundGraph& bound, const std::vector<bool>& parameters) {
  std::vector<bool> fed = parameters;
  for (const Node& node : bound.graph().nodes) {
    const bool is_fed = std::ranges::any_of(
        node.inputs, [&](ValueId value) { return value != kNoValue && fed[Index(value)]; });
    if (!is_fed) continue;
    for (const ValueId value : node.outputs) {
      if (value != kNoValue) fed[Index(value)] = IsFloat(bound.TypeOf(value).dtype);
    }
  }
  return fed;
}

}  // namespace

DeviceValues::DeviceValues(const BoundGraph& bound, const Roles& roles, ProgramWriter& writer)
    : bound_(bound),
      names_(bound.graph().values.size(), kNoName),
      is_parameter_(names_.size()),
      is_scalar_constant_(names_.size()) {
  AddModuleTensors(roles, writer);
  writer.PlaceModule();
  follows_parameter_ = FloatsFedBy(bound, is_parameter_);
  const Graph& graph = bound.graph();
  for (size_t i = 0; i < graph.initializers.size(); ++i) {
    const Initializer& initializer = graph.initializers[i];
    is_scalar_constant_[Index(initializer.value)] =
        roles.of_initializer[i] == Role::kConstant && Numel(initializer.type.dims) <= 1;
  }
  for (const ValueId input : graph.inputs) {
    names_[Index(input)] = writer.NewName(std::string(graph.values[Index(input)].name),
                                          writer.WithPrecision(TypeOf(input)));
    writer.program().inputs.push_back(names_[Index(input)]);
  }
}

void DeviceValues::AddModuleTensors(const Roles& roles, ProgramWriter& writer) {
  std::vector<NameId> parameters;
  for (const ModuleTensor& parameter : roles.parameters) {
    parameters.push_back(AddTensor(parameter, writer));
    if (parameter.value != kNoValue) is_parameter_[Index(parameter.value)] = true;
  }
  writer.ListParameters(parameters);
  for (const ModuleTensor& buffer : roles.buffers) {
    writer.program().buffers.push_back(AddTensor(buffer, writer));
  }
  for (const auto& [copy, tensor] : roles.ties) {
    names_[Index(copy)] = names_[Index(tensor)];
    is_parameter_[Index(copy)] = is_parameter_[Index(tensor)];
  }
  for (const auto& [value, buffer] : roles.views) views_[value] = LostTensor(buffer);
}

NameId DeviceValues::AddTensor(const ModuleTensor& tensor, ProgramWriter& writer) {
  const NameId name = writer.NewName(tensor.name, writer.WithPrecision(tensor.type));
  if (tensor.value == kNoValue) {
    lost_[tensor.name] = name;
  } else {
    names_[Index(tensor.value)] = name;
  }
  return name;
}

NameId DeviceValues::ViewedBy(ValueId value) const {
  const auto view = views_.find(value);
  return view == views_.end() ? kNoName : view->second;
}

std::optional<NameId> DeviceValues::FindLostTensor(const std::string& name) const {
  const auto lost = lost_.find(name);
  return lost == lost_.end() ? std::nullopt : std::optional(lost->second);
}

bool DeviceValues::IsKnown(ValueId value) const {
  if (bound_.Known(value) != nullptr) return true;
  return KnownNumber(value).has_value() && Numel(TypeOf(value).dims) <= 1 &&
         !follows_parameter_[Index(value)];
}

bool DeviceValues::IsHost(ValueId value) const {
  if (value == kNoValue || names_[Index(value)] != kNoName) return false;
  return IsKnown(value) || is_scalar_constant_[Index(value)];
}

bool DeviceValues::IsParameter(ValueId value) const {
  return value != kNoValue && is_parameter_[Index(value)];
}

bool DeviceValues::IsMadeOfNumbers(ValueId value) const {
  if (names_[Index(value)] != kNoName) return false;
  const Value& stored = bound_.graph().values[Index(value)];
  return stored.initializer >= 0 ||
         (stored.producer != kNoNode && bound_.At(stored.producer).op_type == "Constant");
}

std::optional<double> DeviceValues::KnownNumber(ValueId value) const {
  return value == kNoValue ? std::nullopt : bound_.shapes().known_scalar[Index(value)];
}

void DeviceValues::Bind(ValueId value, NameId name) {
  if (value != kNoValue) names_[Index(value)] = name;
}

void DeviceValues::TakeAsNumber(ValueId result) { is_scalar_constant_[Index(result)] = true; }

void DeviceValues::Alias(ValueId result, ValueId value, NameId name) {
  names_[Index(result)] = name;
  is_parameter_[Index(result)] = is_parameter_[Index(value)];
}

void DeviceValues::Hide(ValueId value, NameId by) {
  hidden_.emplace_back(value, Exchange(value, by));
}

void DeviceValues::ShowHidden() {
  for (auto row = hidden_.rbegin(); row != hidden_.rend(); ++row) {
    names_[Index(row->first)] = row->second;
  }
  hidden_.clear();
}

NameId DeviceValues::Exchange(ValueId value, NameId name) {
  return std::exchange(names_[Index(value)], name);
}

}  // namespace onnxfit

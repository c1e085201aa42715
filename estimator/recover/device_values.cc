#include "estimator/recover/device_values.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/parameters/untrained_tensors.h"

namespace onnxfit {
namespace {

// By value: whether it is one of `parameters` (by value), or a float that one of them feeds, which
// the file would let one compute, but training changes: an exponential of a parameter of one
// element.  O(nodes).
std::vector<bool> FloatsFedBy(const BoundGraph& bound, const std::vector<bool>& parameters) {
  std::vector<bool> fed = parameters;
  for (const Node& node : bound.graph().nodes) {
    const bool reads_type = node.op_type == "CastLike";  // of what it reads second
    const bool is_fed = std::ranges::any_of(
        node.inputs.begin(), reads_type ? node.inputs.begin() + 1 : node.inputs.end(),
        [&](ValueId value) { return value != kNoValue && fed[Index(value)]; });
    if (!is_fed) continue;
    for (const ValueId value : node.outputs) {
      if (value != kNoValue) fed[Index(value)] = IsFloat(bound.TypeOf(value).dtype);
    }
  }
  return fed;
}

// --- Integers -------------------------------------------------------------------------------

// How many inputs are tensors; those behind them are sizes, axes, positions.
struct TensorInputs {
  std::string_view op_type;
  size_t count;
};

constexpr TensorInputs kTensorInputs[] = {
    {"Slice", 1},   {"Reshape", 1}, {"Expand", 1},    {"Unsqueeze", 1},
    {"Squeeze", 1}, {"Range", 0},   {"Constant", 0},  {"Tile", 1},
    {"Trilu", 1},   {"CumSum", 1},  {"ReduceSum", 1},
};

size_t TensorInputsOf(const Node& node) {
  const auto* const row = std::find_if(
      std::begin(kTensorInputs), std::end(kTensorInputs),
      [&](const TensorInputs& candidate) { return candidate.op_type == node.op_type; });
  const size_t count = row == std::end(kTensorInputs) ? node.inputs.size() : row->count;
  return std::min(count, node.inputs.size());
}

class DeviceIntegerFinder {
 public:
  DeviceIntegerFinder(const BoundGraph& bound, const Roles& roles)
      : graph_(bound.graph()),
        metadata_(bound.metadata()),
        shapes_(bound.shapes()),
        from_device_(graph_.values.size()),
        runs_(graph_.nodes.size()) {
    for (const ModuleTensor& buffer : roles.buffers) {
      if (buffer.value != kNoValue) from_device_[Index(buffer.value)] = true;
    }
    for (const auto& [value, buffer] : roles.views) from_device_[Index(value)] = true;
    for (const Initializer& initializer : graph_.initializers) {
      const bool is_made = IsMadeByCall(graph_.values[Index(initializer.value)].name);
      if (is_made && !TypeOf(initializer.value).dims.empty() && !IsFloat(initializer.type.dtype)) {
        from_device_[Index(initializer.value)] = true;
      }
    }
    for (size_t i = 0; i < graph_.nodes.size(); ++i) FollowDown(static_cast<NodeId>(i));
  }

  std::vector<bool> Find() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const bool gathers = node.op_type == "Gather" && node.inputs.size() == 2;
      if (gathers && IsFloat(TypeOf(node.inputs[0]).dtype)) needed_.push_back(node.inputs[1]);
      if (node.op_type == "GatherElements") needed_.push_back(node.inputs[1]);
      if (node.op_type == "Where") needed_.push_back(node.inputs[0]);
      const bool casts = node.op_type == "Cast" && !TypeOf(node.inputs[0]).dims.empty();
      if (!casts || !IsFloat(TypeOf(node.outputs[0]).dtype)) continue;
      needed_.push_back(node.inputs[0]);
      if (IsFromDevice(node.inputs[0])) runs_[i] = true;  // one number is known as a float, too
    }
    while (!needed_.empty()) {
      const ValueId value = needed_.back();
      needed_.pop_back();
      FollowUp(value);
    }
    return std::move(runs_);
  }

 private:
  // "arange_1": what torch.export's optimizer computed of calls has the name of the last one.
  static bool IsMadeByCall(std::string_view name) {
    constexpr std::string_view kCalls[] = {"arange", "add", "unsqueeze", "squeeze"};
    const std::string_view call = name.substr(0, name.find('_'));
    return std::find(std::begin(kCalls), std::end(kCalls), call) != std::end(kCalls);
  }

  // torch.ones(…), which decoders sum up to positions.
  bool IsFill(NodeId id) const {
    const std::string_view op = graph_.nodes[Index(id)].op_type;
    return op == "ConstantOfShape" || (op == "Expand" && FillsTensor(metadata_.TargetOf(id)));
  }

  const TensorType& TypeOf(ValueId value) const { return shapes_.types[Index(value)].tensor; }

  bool IsFromDevice(ValueId value) const { return value != kNoValue && from_device_[Index(value)]; }

  // mask.bool(): sizes are never floats.
  bool TestsFloats(const Node& node) const {
    if (node.op_type != "Cast") return false;
    const TensorType& tested = TypeOf(node.inputs[0]);
    return IsFloat(tested.dtype) && !tested.dims.empty() &&
           TypeOf(node.outputs[0]).dtype == DType::kBool;
  }

  // A size that is taken of a tensor (full_like) makes another one there.
  void FollowDown(NodeId id) {
    const Node& node = graph_.nodes[Index(id)];
    bool comes = node.op_type == "Range" || IsFill(id) || TestsFloats(node);
    for (size_t i = 0; i < TensorInputsOf(node); ++i) comes |= IsFromDevice(node.inputs[i]);
    for (const ValueId output : node.outputs) {
      if (output != kNoValue && comes) from_device_[Index(output)] = true;
    }
  }

  void FollowUp(ValueId value) {
    if (!IsFromDevice(value)) return;
    const NodeId producer = graph_.values[Index(value)].producer;
    if (producer == kNoNode || runs_[Index(producer)]) return;
    const Node& node = graph_.nodes[Index(producer)];
    if (node.op_type == "Shape" || node.op_type == "Constant") return;
    runs_[Index(producer)] = true;
    for (size_t i = 0; i < TensorInputsOf(node); ++i) needed_.push_back(node.inputs[i]);
  }

  const Graph& graph_;
  const ExporterMetadata& metadata_;
  const Shapes& shapes_;
  std::vector<bool> from_device_;  // by value
  std::vector<bool> runs_;         // by node
  std::vector<ValueId> needed_;
};

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
  writer.ListParameters(parameters, FindUntrained(bound_, roles.parameters));
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

std::vector<bool> FindDeviceIntegers(const BoundGraph& bound, const Roles& roles) {
  return DeviceIntegerFinder(bound, roles).Find();
}

}  // namespace onnxfit

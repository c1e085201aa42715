#include "estimator/recover/device_integers.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "estimator/base/index.h"
#include "estimator/recover/fx_node.h"

namespace onnxfit {
namespace {

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

std::vector<bool> FindDeviceIntegers(const BoundGraph& bound, const Roles& roles) {
  return DeviceIntegerFinder(bound, roles).Find();
}

}  // namespace onnxfit

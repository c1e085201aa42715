// x.unfold (dimension, size, step) with a dimension counted from the end: TorchScript's exporter
// writes a slice for each window, and joins them one dimension too far behind.
#include <optional>
#include <unordered_map>
#include <vector>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

using MakersOf = std::unordered_map<std::string_view, onnx::NodeProto*>;

class WindowsSearch {
 public:
  explicit WindowsSearch(onnx::GraphProto& graph) : places_(KnownPlacesIn(graph)) {
    for (onnx::NodeProto& node : *graph.mutable_node()) {
      for (const std::string& output : node.output()) makers_.emplace(output, &node);
    }
  }

  // The nodes that raise the windows which `joined` joins at `axis`; empty where it joins others.
  std::vector<onnx::NodeProto*> RaisedFor(const onnx::NodeProto& joined, int64_t axis) const {
    std::vector<onnx::NodeProto*> raised;
    for (const std::string& part : joined.input()) {
      onnx::NodeProto* raise = MakerOf(part, "Unsqueeze");
      if (raise == nullptr || !IsWindow(*raise, axis)) return {};
      raised.push_back(raise);
    }
    return raised;
  }

 private:
  onnx::NodeProto* MakerOf(std::string_view value, std::string_view op_type) const {
    const auto found = makers_.find(value);
    if (found == makers_.end() || found->second->op_type() != op_type) return nullptr;
    return found->second->input_size() == 0 ? nullptr : found->second;
  }

  bool IsWindow(const onnx::NodeProto& raise, int64_t axis) const {
    if (AxisOf(raise, 1) != axis) return false;
    const onnx::NodeProto* moved = MakerOf(raise.input(0), "Transpose");
    const onnx::NodeProto* cut = moved == nullptr ? nullptr : MakerOf(moved->input(0), "Slice");
    return cut != nullptr && AxisOf(*cut, 3) == axis;
  }

  // What opset 13 has as an input, and the ones before as an attribute.
  std::optional<int64_t> AxisOf(const onnx::NodeProto& node, int place) const {
    if (node.input_size() > place) {
      const auto found = places_.find(node.input(place));
      return found == places_.end() ? std::nullopt : std::optional(found->second);
    }
    const onnx::AttributeProto* axes = FindAttribute(node, "axes");
    return axes == nullptr || axes->ints_size() != 1 ? std::nullopt : std::optional(axes->ints(0));
  }

  KnownPlaces places_;
  MakersOf makers_;
};

void SetAxis(onnx::NodeProto& raise, const std::string& name, int64_t axis) {
  if (raise.input_size() > 1) {
    raise.set_input(1, name);
    return;
  }
  for (onnx::AttributeProto& attribute : *raise.mutable_attribute()) {
    if (attribute.name() == "axes") attribute.set_ints(0, axis);
  }
}

void AddNumber(onnx::GraphProto& graph, const std::string& name, int64_t number) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(1);
  tensor.add_int64_data(number);
}

}  // namespace

void CountWindowsFromFront(onnx::ModelProto& model) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const WindowsSearch search(graph);
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.op_type() != "Concat" || node.attribute_size() != 1) continue;
    const int64_t axis = node.attribute(0).i();
    if (axis >= 0) continue;
    const auto raised = search.RaisedFor(node, axis);
    if (raised.empty()) continue;
    const std::string name = node.output(0) + ".axis";
    for (onnx::NodeProto* raise : raised) SetAxis(*raise, name, axis - 1);
    node.mutable_attribute(0)->set_i(axis - 1);
    AddNumber(graph, name, axis - 1);
  }
}

}  // namespace onnxfit

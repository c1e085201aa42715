// A Scan is a Loop over the parts of its inputs, as which it is written out.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/partial_inferrer.h"

namespace onnxfit {
namespace {

constexpr int64_t kFirstOpset = 9;  // before, a Scan has batches and lengths

onnx::AttributeProto& AddAttribute(onnx::NodeProto& node, const char* name,
                                   onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

int64_t IntAt(const onnx::NodeProto& node, std::string_view name, int place) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr || place >= attribute->ints_size() ? 0 : attribute->ints(place);
}

// Elements joined along another dimension than the first stay one operator.
bool IsLoop(const onnx::NodeProto& scan) {
  const onnx::AttributeProto* body = FindAttribute(scan, "body");
  const int64_t parts = IntAttribute(scan, "num_scan_inputs", 0);
  if (scan.op_type() != "Scan" || !scan.domain().empty() || body == nullptr) return false;
  if (parts < 1 || parts > scan.input_size()) return false;
  if (body->g().input_size() != scan.input_size()) return false;
  const onnx::AttributeProto* axes = FindAttribute(scan, "scan_output_axes");
  return axes == nullptr ||
         std::ranges::all_of(axes->ints(), [](int64_t axis) { return axis == 0; });
}

class ScanWriter {
 public:
  ScanWriter(onnx::GraphProto& graph, std::unordered_set<std::string> taken)
      : graph_(graph), taken_(std::move(taken)) {}

  // Scan: (states …, inputs …) -> (states …, lists …), body: (states …, parts …) -> the same
  // Loop: (trips, no condition, states …), body: (trip, condition, states …) -> (condition, …)
  void Write(const onnx::NodeProto& scan) {
    const auto states =
        scan.input_size() - static_cast<int>(IntAttribute(scan, "num_scan_inputs", 0));
    const onnx::GraphProto& old = FindAttribute(scan, "body")->g();
    const std::string prefix = scan.name().empty() ? "Scan" : scan.name();
    const std::string trips = AppendTrips(scan.input(states), IntAt(scan, kAxes, 0), prefix);
    onnx::GraphProto body;
    body.set_name(old.name());
    const std::string trip = AddInput(body, onnx::TensorProto::INT64, prefix + "/trip");
    const std::string goes_on = AddInput(body, onnx::TensorProto::BOOL, prefix + "/goes_on");
    for (int i = 0; i < states; ++i) *body.add_input() = old.input(i);
    for (int i = states; i < scan.input_size(); ++i) {
      AddPart(body, scan.input(i), trip, old.input(i).name(), IntAt(scan, kAxes, i - states));
    }
    for (const auto& node : old.node()) *body.add_node() = node;
    *body.mutable_initializer() = old.initializer();
    *body.mutable_value_info() = old.value_info();
    body.add_output()->set_name(goes_on);
    for (const auto& output : old.output()) *body.add_output() = output;
    AppendLoop(scan, trips, states, std::move(body));
  }

 private:
  static constexpr std::string_view kAxes = "scan_input_axes";

  std::string Unique(const std::string& name) {
    std::string unique = name;
    for (int i = 2; !taken_.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    return unique;
  }

  // The size of `list` along `axis`.
  std::string AppendTrips(const std::string& list, int64_t axis, const std::string& prefix) {
    onnx::NodeProto& shape = *graph_.add_node();
    shape.set_op_type("Shape");
    shape.add_input(list);
    shape.add_output(Unique(prefix + "/shape"));
    const std::string sizes = shape.output(0);
    onnx::NodeProto& place = *graph_.add_node();
    place.set_op_type("Constant");
    place.add_output(Unique(prefix + "/axis"));
    const std::string at = place.output(0);
    onnx::TensorProto& value =
        *AddAttribute(place, "value", onnx::AttributeProto::TENSOR).mutable_t();
    value.set_data_type(onnx::TensorProto::INT64);
    value.add_int64_data(axis);
    onnx::NodeProto& size = *graph_.add_node();
    size.set_op_type("Gather");
    size.add_input(sizes);
    size.add_input(at);
    size.add_output(Unique(prefix + "/trips"));
    return size.output(0);
  }

  std::string AddInput(onnx::GraphProto& body, int32_t dtype, const std::string& name) {
    onnx::ValueInfoProto& input = *body.add_input();
    input.set_name(Unique(name));
    input.mutable_type()->mutable_tensor_type()->set_elem_type(dtype);
    input.mutable_type()->mutable_tensor_type()->mutable_shape();
    return input.name();
  }

  // From which end the parts are taken does not matter.
  static void AddPart(onnx::GraphProto& body, const std::string& list, const std::string& trip,
                      const std::string& name, int64_t axis) {
    onnx::NodeProto& part = *body.add_node();
    part.set_op_type("Gather");
    part.add_input(list);
    part.add_input(trip);
    part.add_output(name);
    AddAttribute(part, "axis", onnx::AttributeProto::INT).set_i(axis);
  }

  void AppendLoop(const onnx::NodeProto& scan, const std::string& trips, int states,
                  onnx::GraphProto body) {
    onnx::NodeProto& loop = *graph_.add_node();
    loop.set_op_type("Loop");
    loop.set_name(scan.name());
    loop.add_input(trips);
    loop.add_input("");
    for (int i = 0; i < states; ++i) loop.add_input(scan.input(i));
    *loop.mutable_output() = scan.output();
    *AddAttribute(loop, "body", onnx::AttributeProto::GRAPH).mutable_g() = std::move(body);
  }

  onnx::GraphProto& graph_;
  std::unordered_set<std::string> taken_;
};

}  // namespace

Graph LoopsForScans(Graph graph) {
  const onnx::ModelProto& old = graph.model->proto;
  if (OnnxOpset(graph) < kFirstOpset) return graph;
  if (std::ranges::none_of(old.graph().node(), IsLoop)) return graph;
  std::unordered_set<std::string> taken;
  for (const Value& value : graph.values) taken.emplace(value.name);
  onnx::ModelProto model = old;
  onnx::GraphProto& made = *model.mutable_graph();
  made.clear_node();
  ScanWriter writer(made, std::move(taken));
  for (const onnx::NodeProto& node : old.graph().node()) {
    if (IsLoop(node)) {
      writer.Write(node);
    } else {
      *made.add_node() = node;
    }
  }
  return RebuildGraph(std::move(model), graph);
}

}  // namespace onnxfit

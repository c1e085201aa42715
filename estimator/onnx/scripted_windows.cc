// x.unfold (dimension, size, step) with a dimension counted from the end: TorchScript's exporter
// writes a slice for each window, and joins them one dimension too far behind.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "estimator/base/quote.h"
#include "estimator/onnx/constants.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// Where the nodes of one window are in the file, and what they cut out.
struct WindowNodes {
  int raise = 0;  // Unsqueeze
  int move = 0;   // Transpose
  int cut = 0;    // Slice
  int64_t start = 0;
  int64_t end = 0;
};

class WindowsSearch {
 public:
  explicit WindowsSearch(const onnx::GraphProto& graph)
      : graph_(graph), places_(KnownPlacesIn(graph)) {
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const std::string& output : graph.node(i).output()) makers_.emplace(output, i);
      for (const std::string& input : graph.node(i).input()) ++reads_[input];
    }
  }

  // The windows that `joined` joins at `axis`; empty where it joins something else.
  std::vector<WindowNodes> JoinedBy(const onnx::NodeProto& joined, int64_t axis) const {
    std::vector<WindowNodes> windows;
    for (const std::string& part : joined.input()) {
      const std::optional<WindowNodes> window = WindowOf(part, axis);
      if (!window.has_value()) return {};
      windows.push_back(*window);
    }
    return AreOfOneCall(windows) ? windows : std::vector<WindowNodes>();
  }

 private:
  const onnx::NodeProto& At(int node) const { return graph_.node(node); }

  // A node that TorchScript's exporter has named, and whose result is read once.
  std::optional<int> MakerOf(const std::string& value, std::string_view op_type) const {
    const auto found = makers_.find(value);
    if (found == makers_.end() || reads_.at(value) != 1) return std::nullopt;
    const onnx::NodeProto& node = At(found->second);
    const bool is_named = node.name().starts_with('/');
    if (node.op_type() != op_type || !is_named || node.input_size() == 0) return std::nullopt;
    return found->second;
  }

  std::optional<WindowNodes> WindowOf(const std::string& part, int64_t axis) const {
    const auto raise = MakerOf(part, "Unsqueeze");
    if (!raise.has_value() || NumberOf(At(*raise), 1, "axes") != axis) return std::nullopt;
    const auto move = MakerOf(At(*raise).input(0), "Transpose");
    if (!move.has_value() || !MovesLast(At(*move), axis)) return std::nullopt;
    const auto cut = MakerOf(At(*move).input(0), "Slice");
    if (!cut.has_value() || NumberOf(At(*cut), 3, "axes") != axis) return std::nullopt;
    const auto start = NumberOf(At(*cut), 1, "starts");
    const auto end = NumberOf(At(*cut), 2, "ends");
    if (!start.has_value() || !end.has_value()) return std::nullopt;
    return WindowNodes{*raise, *move, *cut, *start, *end};
  }

  // What opset 13 (Slice: 10) has as an input, and the ones before as an attribute.
  std::optional<int64_t> NumberOf(const onnx::NodeProto& node, int place,
                                  std::string_view attribute) const {
    if (node.input_size() > place) {
      const auto found = places_.find(node.input(place));
      return found == places_.end() ? std::nullopt : std::optional(found->second);
    }
    const onnx::AttributeProto* list = FindAttribute(node, attribute);
    return list == nullptr || list->ints_size() != 1 ? std::nullopt : std::optional(list->ints(0));
  }

  // Whether dimension `axis`, counted from the end, goes behind all others.
  static bool MovesLast(const onnx::NodeProto& node, int64_t axis) {
    const onnx::AttributeProto* perm = FindAttribute(node, "perm");
    if (perm == nullptr || perm->ints_size() < -axis) return false;
    const int rank = perm->ints_size();
    std::vector<int64_t> order;
    for (int i = 0; i < rank; ++i) {
      if (i != rank + axis) order.push_back(i);
    }
    order.push_back(rank + axis);
    return std::equal(order.begin(), order.end(), perm->ints().begin());
  }

  // As the exporter writes one call: first all slices of one value, each a step behind the one
  // before, then what moves and raises each.
  bool AreOfOneCall(const std::vector<WindowNodes>& windows) const {
    if (windows.size() < 2) return false;
    const WindowNodes& first = windows[0];
    const int64_t step = windows[1].start - first.start;
    for (size_t i = 0; i < windows.size(); ++i) {
      const WindowNodes& window = windows[i];
      const int64_t start = static_cast<int64_t>(i) * step;
      const bool is_next = window.start == start && window.end == start + first.end;
      const bool is_of_one = At(window.cut).input(0) == At(first.cut).input(0);
      if (!is_next || !is_of_one || window.cut > first.move) return false;
    }
    return true;
  }

  const onnx::GraphProto& graph_;
  KnownPlaces places_;
  std::unordered_map<std::string_view, int> makers_;
  std::unordered_map<std::string_view, int> reads_;
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

struct Joined {
  int node = 0;  // the Concat
  std::vector<WindowNodes> windows;
};

std::vector<Joined> FindJoined(const onnx::GraphProto& graph) {
  const WindowsSearch search(graph);
  std::vector<Joined> found;
  for (int i = 0; i < graph.node_size(); ++i) {
    const onnx::NodeProto& node = graph.node(i);
    const int64_t axis = IntAttribute(node, "axis", 0);
    if (node.op_type() != "Concat" || node.output_size() != 1 || axis >= 0) continue;
    std::vector<WindowNodes> windows = search.JoinedBy(node, axis);
    if (!windows.empty()) found.push_back({i, std::move(windows)});
  }
  return found;
}

}  // namespace

void JoinWindowsInFront(onnx::ModelProto& model, std::vector<std::string>& notes) {
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const Joined& joined : FindJoined(graph)) {
    onnx::NodeProto& node = *graph.mutable_node(joined.node);
    const int64_t axis = IntAttribute(node, "axis", 0) - 1;
    const std::string name = "onnxfit.axis_of_" + node.output(0);
    for (const WindowNodes& window : joined.windows) {
      SetAxis(*graph.mutable_node(window.raise), name, axis);
    }
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == "axis") attribute.set_i(axis);
    }
    AddNumber(graph, name, axis);
    notes.push_back(
        fmt::format("node {}: the {} windows of x.unfold({}, …) are joined where "
                    "PyTorch has them, which the exporter misses by one dimension",
                    Quote(node.name()), joined.windows.size(), axis + 1));
  }
}

}  // namespace onnxfit

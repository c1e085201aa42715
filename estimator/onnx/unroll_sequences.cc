// Lists whose elements are known one by one become tensors: SequenceMap, which torch.export writes
// for atleast_2d, hstack and others, SequenceAt and ConcatFromSequence.  TorchScript's exporter
// writes a list to which a loop appends as SequenceInsert of an empty one.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "estimator/onnx/control_flow.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/partial_inferrer.h"

namespace onnxfit {
namespace {

constexpr size_t kMostMapped = 256;

// The names in the lists that SequenceConstruct makes, by the list's.
using Lists = std::unordered_map<std::string, std::vector<std::string>>;

// Adds what `node` constructs, or what it puts behind the elements of a list.
void AddList(const onnx::NodeProto& node, Lists& lists) {
  if (node.op_type() == "SequenceEmpty" && node.output_size() == 1) lists[node.output(0)] = {};
  const auto longer = node.input_size() == 0 ? lists.end() : lists.find(node.input(0));
  if (longer != lists.end() && node.output_size() == 1) {
    const bool appends = node.op_type() == "SequenceInsert" && node.input_size() == 2;
    std::vector<std::string> elements = longer->second;
    if (appends) elements.push_back(node.input(1));
    if (appends || node.op_type() == "Identity") lists[node.output(0)] = std::move(elements);
  }
  const bool is_list =
      node.op_type() == "SequenceConstruct" && node.output_size() == 1 && node.input_size() > 0;
  if (is_list) lists[node.output(0)].assign(node.input().begin(), node.input().end());
}

void AddPlace(std::string_view name, const onnx::TensorProto& tensor, KnownPlaces& places) {
  const bool is_scalar =
      tensor.data_type() == onnx::TensorProto::INT64 &&
      (tensor.dims_size() == 0 || (tensor.dims_size() == 1 && tensor.dims(0) == 1));
  if (!is_scalar || !HasContents(tensor)) return;
  const std::optional<HostTensor> known = FromProto(tensor, nullptr);
  if (known) places[name] = known->integers()[0];
}

// The node that reads the elements of a list in place of one that reads the list; nullopt for
// other nodes.
std::optional<onnx::NodeProto> OfElements(const onnx::NodeProto& node, const Lists& lists,
                                          const KnownPlaces& places) {
  const auto list = node.input_size() == 0 ? lists.end() : lists.find(node.input(0));
  if (list == lists.end()) return std::nullopt;
  onnx::NodeProto made = node;
  made.clear_input();
  if (node.op_type() == "SequenceAt" && node.input_size() == 2) {
    const auto place = places.find(node.input(1));
    if (place == places.end()) return std::nullopt;
    const size_t at = AxisOf(place->second, list->second.size());
    if (at >= list->second.size()) return std::nullopt;
    made.set_op_type("Identity");
    made.add_input(list->second[at]);
    return made;
  }
  const bool is_joined = node.op_type() == "ConcatFromSequence" && !list->second.empty() &&
                         IntAttribute(node, "new_axis", 0) == 0;
  if (!is_joined) return std::nullopt;
  made.set_op_type("Concat");
  made.clear_attribute();
  if (const onnx::AttributeProto* axis = FindAttribute(node, "axis")) *made.add_attribute() = *axis;
  for (const std::string& part : list->second) made.add_input(part);
  return made;
}

// The elements that a ConcatFromSequence stacks, or null.
const std::vector<std::string>* StackedIn(const onnx::NodeProto& node, const Lists& lists) {
  const bool stacks =
      node.op_type() == "ConcatFromSequence" && IntAttribute(node, "new_axis", 0) == 1;
  const auto list = stacks && node.input_size() == 1 ? lists.find(node.input(0)) : lists.end();
  return list == lists.end() || list->second.empty() ? nullptr : &list->second;
}

const onnx::GraphProto* BodyOfMap(const onnx::NodeProto& node) {
  const onnx::AttributeProto* body = FindAttribute(node, "body");
  return body != nullptr && body->has_g() ? &body->g() : nullptr;
}

// By input; empty where the first is no list that is known.
std::vector<std::vector<std::string>> ElementsOf(const onnx::NodeProto& node, const Lists& lists) {
  std::vector<std::vector<std::string>> elements;
  if (node.op_type() != "SequenceMap" || BodyOfMap(node) == nullptr) return elements;
  if (node.input_size() == 0 || !lists.contains(node.input(0))) return elements;
  if (lists.at(node.input(0)).empty()) return elements;
  for (const std::string& input : node.input()) {
    const auto list = lists.find(input);
    elements.push_back(list == lists.end() ? std::vector<std::string>{input} : list->second);
  }
  if (elements[0].size() > kMostMapped) elements.clear();
  return elements;
}

}  // namespace

KnownPlaces KnownPlacesIn(const onnx::GraphProto& graph) {
  KnownPlaces places;
  for (const auto& tensor : graph.initializer()) AddPlace(tensor.name(), tensor, places);
  for (const auto& node : graph.node()) {
    const onnx::AttributeProto* value = FindAttribute(node, "value");
    const bool is_constant = node.op_type() == "Constant" && node.output_size() == 1;
    if (is_constant && value != nullptr && value->has_t())
      AddPlace(node.output(0), value->t(), places);
  }
  return places;
}

Graph UnrollSequences(Graph graph) {
  const onnx::ModelProto& old = graph.model->proto;
  const auto is_list = [](const onnx::NodeProto& node) {
    return node.op_type() == "SequenceConstruct" || node.op_type() == "SequenceEmpty";
  };
  if (std::ranges::none_of(old.graph().node(), is_list)) return graph;
  std::unordered_set<std::string> taken;
  for (const Value& value : graph.values) taken.emplace(value.name);
  for (const Node& node : graph.nodes) taken.emplace(node.name);
  onnx::ModelProto model = old;
  onnx::GraphProto& made = *model.mutable_graph();
  made.clear_node();
  BodyInliner inliner(made, std::move(taken), OnnxOpset(graph), graph.path);
  const KnownPlaces places = KnownPlacesIn(old.graph());
  Lists lists;
  for (const onnx::NodeProto& node : old.graph().node()) {
    const auto elements = ElementsOf(node, lists);
    const int first = made.node_size();
    if (const auto* parts = StackedIn(node, lists)) {
      inliner.InlineStack(node, *parts);
    } else if (elements.empty()) {
      *made.add_node() = OfElements(node, lists, places).value_or(node);
    } else {
      inliner.InlineMap(node, *BodyOfMap(node), elements);
    }
    for (int i = first; i < made.node_size(); ++i) AddList(made.node(i), lists);
  }
  return RebuildGraph(std::move(model), graph);
}

}  // namespace onnxfit

// Writes what a rebound graph reads into its file.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/onnx/onnx_model.h"
#include "estimator/onnx/rebind.h"

namespace onnxfit {
namespace {

class FollowingWriter {
 public:
  FollowingWriter(const Graph& graph, const Followings& followings)
      : graph_(graph), followings_(followings), model_(graph.model->proto) {
    for (const Value& value : graph.values) taken_.emplace(value.name);
    for (const Node& node : graph.nodes) taken_.emplace(node.name);
    const onnx::GraphProto& old = graph.model->proto.graph();
    for (int i = 0; i < old.node_size(); ++i) places_[&old.node(i)] = i;
    model_.mutable_graph()->clear_node();
  }

  Graph Write() && {
    std::unordered_map<int, NodeId> ids;
    for (const auto& [id, following] : followings_) ids[PlaceOf(id)] = id;
    const onnx::GraphProto& old = graph_.model->proto.graph();
    for (int i = 0; i < old.node_size(); ++i) {
      onnx::NodeProto node = old.node(i);
      const auto id = ids.find(i);
      if (id != ids.end()) Change(id->second, node);
      *model_.mutable_graph()->add_node() = std::move(node);
    }
    return RebuildGraph(std::move(model_), graph_);
  }

 private:
  int PlaceOf(NodeId id) const { return places_.at(&graph_.model->NodeOf(id)); }

  void Change(NodeId id, onnx::NodeProto& node) {
    const Following& following = followings_.at(id);
    for (const auto& [input, elements] : following.constants) {
      std::string& name = *node.mutable_input(static_cast<int>(input));
      name = AddConstant(name, elements);
    }
    for (const auto& [input, expansion] : following.expanded) {
      std::string& name = *node.mutable_input(static_cast<int>(input));
      name = Expanded(graph_.nodes[Index(id)].inputs[input], expansion);
    }
  }

  // Without dots, by which the tensors of modules are known.
  std::string Unique(std::string name) {
    std::ranges::replace(name, '.', '_');
    std::string unique = name;
    for (int i = 2; !taken_.insert(unique).second; ++i) unique = name + "_" + std::to_string(i);
    return unique;
  }

  std::string AddConstant(const std::string& name, const std::vector<int64_t>& elements) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(Unique(name + "_rebound"));
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(static_cast<int64_t>(elements.size()));
    for (const int64_t element : elements) tensor.add_int64_data(element);
    return tensor.name();
  }

  std::string AddNode(const std::string& op, const std::string& made_of,
                      const std::vector<std::string>& inputs) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_name(Unique(made_of + "/" + op));
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(Unique(made_of + "_rebound"));
    return node.output(0);
  }

  // One Expand for all that read `value` in these dimensions.
  std::string Expanded(ValueId value, const Expansion& expansion) {
    const auto [made, is_new] = expanded_.try_emplace({value, expansion.to});
    if (!is_new) return made->second;
    const std::string name(graph_.values[Index(value)].name);
    const std::string once = OneSampleOf(value, expansion);
    return made->second = AddNode("Expand", name, {once, AddConstant(name, expansion.to)});
  }

  std::string OneSampleOf(ValueId value, const Expansion& expansion) {
    const std::string name(graph_.values[Index(value)].name);
    std::vector<int64_t> axes;
    for (size_t i = 0; i < expansion.to.size(); ++i) {
      const bool repeats = expansion.from[i] != 1 && expansion.from[i] != expansion.to[i];
      if (repeats) axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty() || StoreOnce(value, axes)) return name;
    const std::vector<int64_t> starts(axes.size(), 0);
    const std::vector<int64_t> ends(axes.size(), 1);
    return AddNode(
        "Slice", name,
        {name, AddConstant(name, starts), AddConstant(name, ends), AddConstant(name, axes)});
  }

  // Only floats, whose elements nobody asks for, and only where all readers expand them.
  bool StoreOnce(ValueId value, const std::vector<int64_t>& axes) {
    const int32_t initializer = graph_.values[Index(value)].initializer;
    if (initializer < 0) return false;
    const bool is_float = IsFloat(graph_.initializers[Index(initializer)].type.dtype);
    if (!is_float || ReadsOf(value) != ExpandedReadsOf(value)) return false;
    if (initializer >= model_.graph().initializer_size()) return false;  // sparse
    onnx::TensorProto& tensor = *model_.mutable_graph()->mutable_initializer(initializer);
    for (const int64_t axis : axes) tensor.set_dims(static_cast<int>(axis), 1);
    tensor.clear_raw_data();
    tensor.clear_float_data();
    tensor.clear_double_data();
    tensor.clear_int32_data();
    return true;
  }

  int64_t ReadsOf(ValueId value) const {
    int64_t reads = graph_.values[Index(value)].is_output ? 1 : 0;
    for (const Node& node : graph_.nodes) reads += std::ranges::count(node.inputs, value);
    return reads;
  }

  int64_t ExpandedReadsOf(ValueId value) const {
    int64_t reads = 0;
    for (const auto& [id, following] : followings_) {
      for (const auto& [input, expansion] : following.expanded) {
        if (graph_.nodes[Index(id)].inputs[input] == value) ++reads;
      }
    }
    return reads;
  }

  const Graph& graph_;
  const Followings& followings_;
  onnx::ModelProto model_;
  std::unordered_map<const onnx::NodeProto*, int> places_;  // in the file
  std::unordered_set<std::string> taken_;
  std::map<std::pair<ValueId, Dims>, std::string> expanded_;
};

}  // namespace

Graph WithFollowings(const Graph& graph, const Followings& followings) {
  return FollowingWriter(graph, followings).Write();
}

}  // namespace onnxfit

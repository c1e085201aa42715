// torch.nn.EmbeddingBag as exporters write it, a Loop over its bags: one node again.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "estimator/onnx/constants.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

using Nodes = std::vector<const onnx::NodeProto*>;

// What the exporter says of the call that a node is of, if that sums bags; else "".
std::string_view BagCall(const onnx::NodeProto& node) {
  for (const auto& entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.fx_node") continue;
    const std::string_view call = entry.value();
    const bool is_bag = call.find("torch.ops.aten.embedding_bag.") != call.npos ||
                        call.find("torch.ops.aten._embedding_bag.") != call.npos;
    return is_bag ? call : "";
  }
  return "";
}

// The arguments between the parentheses: "%weight", "%view", "%arange", "False", "0" …
std::vector<std::string_view> ArgumentsOf(std::string_view call) {
  constexpr std::string_view kBegin = "args = (";
  std::vector<std::string_view> arguments;
  const size_t begin = call.find(kBegin);
  if (begin == call.npos) return arguments;
  std::string_view rest = call.substr(begin + kBegin.size());
  rest = rest.substr(0, rest.find(')'));
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(", "), rest.size());
    arguments.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return arguments;
}

const onnx::NodeProto* FirstOf(const Nodes& nodes, std::string_view op_type) {
  const auto found =
      std::ranges::find_if(nodes, [&](const auto* node) { return node->op_type() == op_type; });
  return found == nodes.end() ? nullptr : *found;
}

void AddInt(onnx::NodeProto& node, const char* name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

// The offsets: counted by Size, which bags of equal ones share where common nodes are merged; else
// what the number of indices is put behind.
const std::string* OffsetsOf(const Nodes& nodes) {
  for (const std::string_view op_type : {"Size", "Concat"}) {
    const onnx::NodeProto* reader = FirstOf(nodes, op_type);
    if (reader != nullptr && reader->input_size() > 0) return &reader->input(0);
  }
  return nullptr;
}

// Reshape (indices), Gather (weight), Unsqueeze (weights of the indices), a Loop, its parts joined.
std::optional<onnx::NodeProto> BagOf(const Nodes& nodes, std::string_view call) {
  const std::vector<std::string_view> arguments = ArgumentsOf(call);
  const auto text_at = [&](size_t place) {
    return place < arguments.size() ? arguments[place] : std::string_view();
  };
  const onnx::NodeProto* reshape = FirstOf(nodes, "Reshape");
  const onnx::NodeProto* gather = FirstOf(nodes, "Gather");
  const std::string* offsets = OffsetsOf(nodes);
  const bool is_whole = reshape != nullptr && gather != nullptr && offsets != nullptr &&
                        FirstOf(nodes, "Loop") != nullptr && gather->input_size() > 1 &&
                        reshape->input_size() > 0 && reshape->output_size() > 0 &&
                        gather->input(1) == reshape->output(0) && nodes.back()->output_size() == 1;
  if (!is_whole || text_at(3) == "True") return std::nullopt;  // scale_grad_by_freq
  onnx::NodeProto bag = *nodes.back();
  bag.clear_input();
  bag.clear_attribute();
  bag.set_op_type("EmbeddingBag");
  bag.set_domain(std::string(kOwnDomain));
  bag.add_input(gather->input(0));
  bag.add_input(reshape->input(0));
  bag.add_input(*offsets);
  const onnx::NodeProto* weights = FirstOf(nodes, "Unsqueeze");
  const bool has_weights = text_at(6).starts_with("%") && weights != nullptr;
  if (has_weights && weights->input_size() > 0) bag.add_input(weights->input(0));
  AddInt(bag, "mode", text_at(4) == "1" ? 1 : text_at(4) == "2" ? 2 : 0);
  AddInt(bag, "include_last_offset", text_at(7) == "True" ? 1 : 0);
  return bag;
}

// --- TorchScript's Loop over bags -------------------------------------------------

using Producers =
    std::unordered_map<std::string_view, const onnx::NodeProto*>;  // by what they make

Producers ProducersIn(const onnx::GraphProto& graph) {
  Producers producers;
  for (const auto& node : graph.node()) {
    for (const std::string& output : node.output()) producers.emplace(output, &node);
  }
  return producers;
}

// The node of that kind that makes input `input` of `node`; null where another one does.
const onnx::NodeProto* Behind(const onnx::NodeProto* node, int input, std::string_view op_type,
                              const Producers& producers) {
  if (node == nullptr || input >= node->input_size()) return nullptr;
  const auto found = producers.find(node->input(input));
  const bool is_it = found != producers.end() && found->second->op_type() == op_type;
  return is_it ? found->second : nullptr;
}

// ints: as torch's mode of a bag; nullopt for other reductions.
std::optional<int64_t> ModeOf(const onnx::NodeProto& node) {
  constexpr std::string_view kReductions[] = {"ReduceSum", "ReduceMean", "ReduceMax"};
  const auto* found = std::ranges::find(kReductions, node.op_type());
  if (found == std::end(kReductions)) return std::nullopt;
  return found - std::begin(kReductions);
}

// In the body: weight [Gather (Slice (indices, Gather (offsets, trip), next))], times the weights
// of the indices, reduced; torch/onnx/symbolic_opset11.py 2.11, embedding_bag.  The offsets have
// the number of indices behind them.
std::optional<onnx::NodeProto> BagOfLoop(const onnx::NodeProto& loop, const Producers& around) {
  const onnx::AttributeProto* body = FindAttribute(loop, "body");
  const bool is_list = loop.op_type() == "Loop" && loop.input_size() == 2 &&
                       loop.output_size() == 1 && body != nullptr && body->g().output_size() == 2;
  if (!is_list) return std::nullopt;
  const Producers inner = ProducersIn(body->g());
  const auto last = inner.find(body->g().output(1).name());
  if (last == inner.end() || !ModeOf(*last->second)) return std::nullopt;
  const onnx::NodeProto* product = Behind(last->second, 0, "Mul", inner);
  const onnx::NodeProto* rows =
      Behind(product == nullptr ? last->second : product, 0, "Gather", inner);
  const onnx::NodeProto* part = Behind(rows, 1, "Slice", inner);
  const onnx::NodeProto* start = Behind(Behind(part, 1, "Unsqueeze", inner), 0, "Gather", inner);
  const onnx::NodeProto* spread = Behind(product, 1, "Unsqueeze", inner);
  const onnx::NodeProto* weights = Behind(spread, 0, "Slice", inner);
  if (start == nullptr || inner.contains(rows->input(0)) || inner.contains(part->input(0)) ||
      inner.contains(start->input(0)) || (product != nullptr && weights == nullptr)) {
    return std::nullopt;
  }
  const onnx::NodeProto* joined = Behind(start, 0, "Concat", around);
  const bool has_offsets = joined != nullptr && joined->input_size() == 2;
  onnx::NodeProto bag = loop;
  bag.clear_input();
  bag.clear_attribute();
  bag.set_op_type("EmbeddingBag");
  bag.set_domain(std::string(kOwnDomain));
  bag.add_input(rows->input(0));
  bag.add_input(part->input(0));
  bag.add_input(has_offsets ? joined->input(0) : start->input(0));
  if (weights != nullptr) bag.add_input(weights->input(0));
  AddInt(bag, "mode", *ModeOf(*last->second));
  AddInt(bag, "include_last_offset", has_offsets ? 0 : 1);
  return bag;
}

using NameSet = std::unordered_set<std::string>;

void AddRead(const onnx::NodeProto& node, NameSet& read) {
  read.insert(node.input().begin(), node.input().end());
  for (const std::string_view name : CapturedNames(node)) read.emplace(name);
}

bool IsRead(const onnx::NodeProto& node, const NameSet& read) {
  return std::ranges::any_of(node.output(),
                             [&](const std::string& output) { return read.contains(output); });
}

using Bags = std::unordered_map<const onnx::NodeProto*, onnx::NodeProto>;  // by a group's last node

// The nodes with `bags` in place of the groups' last ones.  Of the others in a group (`inner`), the
// numbers that nodes outside of it share stay.
onnx::GraphProto WithBags(const onnx::GraphProto& old, const Bags& bags,
                          const std::unordered_set<const onnx::NodeProto*>& inner) {
  NameSet read;
  for (const auto& output : old.output()) read.insert(output.name());
  for (const auto& node : old.node()) {
    if (!inner.contains(&node)) AddRead(node, read);
  }
  for (const auto& [last, bag] : bags) AddRead(bag, read);
  std::vector<const onnx::NodeProto*> kept;  // from the last to the first
  for (int i = old.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto& node = old.node(i);
    const auto bag = bags.find(&node);
    if (bag != bags.end()) {
      kept.push_back(&bag->second);
    } else if (!inner.contains(&node)) {
      kept.push_back(&node);
    } else if (IsRead(node, read)) {
      AddRead(node, read);
      kept.push_back(&node);
    }
  }
  onnx::GraphProto made = old;
  made.clear_node();
  for (auto node = kept.rbegin(); node != kept.rend(); ++node) *made.add_node() = **node;
  return made;
}

}  // namespace

Graph JoinEmbeddingBags(Graph graph) {
  const onnx::GraphProto& old = graph.model->proto.graph();
  std::map<std::string_view, Nodes> groups;
  for (const auto& node : old.node()) {
    const std::string_view call = BagCall(node);
    if (!call.empty()) groups[call].push_back(&node);
  }
  Bags bags;
  std::unordered_set<const onnx::NodeProto*> inner;
  for (const auto& [call, nodes] : groups) {
    std::optional<onnx::NodeProto> bag = BagOf(nodes, call);
    if (!bag.has_value()) continue;
    bags.emplace(nodes.back(), *std::move(bag));
    inner.insert(nodes.begin(), nodes.end());
  }
  const Producers producers = ProducersIn(old);
  for (const auto& node : old.node()) {
    std::optional<onnx::NodeProto> bag = BagOfLoop(node, producers);
    if (bag.has_value()) bags.emplace(&node, *std::move(bag));
  }
  if (bags.empty()) return graph;
  onnx::ModelProto model = graph.model->proto;
  *model.mutable_graph() = WithBags(old, bags, inner);
  return RebuildGraph(std::move(model), graph);
}

}  // namespace onnxfit

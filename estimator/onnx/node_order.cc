// What a node reads, sub-graphs included, and orders in which things come after what they need.
#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_set>

#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

class Captures {
 public:
  std::vector<std::string_view> Of(const onnx::NodeProto& node) {
    VisitAttributes(node);
    return std::move(captured_);
  }

 private:
  void VisitAttributes(const onnx::NodeProto& node) {
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g()) VisitGraph(attribute.g());
      for (const onnx::GraphProto& graph : attribute.graphs()) VisitGraph(graph);
    }
  }

  void VisitGraph(const onnx::GraphProto& graph) {
    scopes_.push_back(NamesIn(graph));
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& name : node.input()) Use(name);
      VisitAttributes(node);
    }
    for (const onnx::ValueInfoProto& output : graph.output()) Use(output.name());
    scopes_.pop_back();
  }

  static std::unordered_set<std::string_view> NamesIn(const onnx::GraphProto& graph) {
    std::unordered_set<std::string_view> names;
    for (const onnx::ValueInfoProto& input : graph.input()) names.insert(input.name());
    for (const onnx::TensorProto& tensor : graph.initializer()) names.insert(tensor.name());
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
      names.insert(tensor.values().name());
    }
    for (const onnx::NodeProto& node : graph.node()) {
      for (const std::string& name : node.output()) names.insert(name);
    }
    return names;
  }

  void Use(std::string_view name) {
    if (name.empty()) return;
    const auto has_name = [name](const auto& scope) { return scope.contains(name); };
    if (std::any_of(scopes_.rbegin(), scopes_.rend(), has_name)) return;
    if (seen_.insert(name).second) captured_.push_back(name);
  }

  std::vector<std::unordered_set<std::string_view>> scopes_;
  std::unordered_set<std::string_view> seen_;
  std::vector<std::string_view> captured_;
};

}  // namespace

std::vector<std::string_view> CapturedNames(const onnx::NodeProto& node) {
  return Captures().Of(node);
}

// --- An order by needs ---------------------------------------------------------

namespace {

using Needs = std::vector<std::vector<int32_t>>;

size_t At(int32_t item) { return static_cast<size_t>(item); }

bool IsInOrder(const Needs& needs) {
  for (size_t item = 0; item < needs.size(); ++item) {
    for (const int32_t need : needs[item]) {
      if (At(need) >= item) return false;
    }
  }
  return true;
}

// Walks from an item that was not placed along needs that were not, until one returns.
std::vector<int32_t> FindCycle(const Needs& needs, const std::vector<int32_t>& missing) {
  const auto is_placed = [&](int32_t item) { return missing[At(item)] == 0; };
  int32_t item = 0;
  while (is_placed(item)) ++item;
  std::vector<int32_t> place(needs.size(), -1);
  std::vector<int32_t> walk;
  while (place[At(item)] < 0) {
    place[At(item)] = static_cast<int32_t>(walk.size());
    walk.push_back(item);
    const std::vector<int32_t>& next = needs[At(item)];
    item = *std::find_if_not(next.begin(), next.end(), is_placed);
  }
  walk.erase(walk.begin(), walk.begin() + place[At(item)]);
  return walk;
}

}  // namespace

Sorted SortByNeeds(const Needs& needs) {
  Sorted sorted;
  if (IsInOrder(needs)) {
    sorted.order.resize(needs.size());
    std::iota(sorted.order.begin(), sorted.order.end(), 0);
    return sorted;
  }
  Needs users(needs.size());
  std::vector<int32_t> missing(needs.size());  // how many needs have no place yet
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t item = 0; At(item) < needs.size(); ++item) {
    missing[At(item)] = static_cast<int32_t>(needs[At(item)].size());
    for (const int32_t need : needs[At(item)]) users[At(need)].push_back(item);
    if (missing[At(item)] == 0) ready.push(item);
  }
  while (!ready.empty()) {
    const int32_t item = ready.top();
    ready.pop();
    sorted.order.push_back(item);
    for (const int32_t user : users[At(item)]) {
      if (--missing[At(user)] == 0) ready.push(user);
    }
  }
  if (sorted.order.size() < needs.size()) sorted.cycle = FindCycle(needs, missing);
  return sorted;
}

}  // namespace onnxfit

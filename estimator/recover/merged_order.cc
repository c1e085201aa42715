#include "estimator/recover/merged_order.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/module_names.h"

namespace onnxfit {
namespace {

// How many modules the paths of two tensors share, from the outermost in.
size_t SharedPath(std::string_view a, std::string_view b) {
  size_t shared = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '.') ++shared;
  }
  return shared;
}

// "layers.#.mlp.bias" of "layers.3.mlp.bias".
std::string InAnyLayer(std::string_view name) {
  std::string bound;
  for (size_t start = 0; start < name.size();) {
    const size_t end = std::min(name.find('.', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    const bool is_number = part.find_first_not_of("0123456789") == std::string_view::npos;
    bound += is_number ? "#" : part;
    bound += '.';
    start = end + 1;
  }
  return bound;
}

class Placer {
 public:
  Placer(const Graph& graph, size_t first) : graph_(graph) {
    for (size_t i = 0; i < first; ++i) order_.push_back(static_cast<int32_t>(i));
    for (size_t i = first; i < graph.initializers.size(); ++i) {
      place_in_layer_[InAnyLayer(NameOf(static_cast<int32_t>(i)))] = i;
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId value : graph.nodes[i].inputs) first_use_.try_emplace(value, i);
    }
  }

  void Place(int32_t initializer) {
    const size_t place = std::max(PlaceBeside(initializer), earliest_);
    order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(place), initializer);
    earliest_ = place + 1;
  }

  const std::vector<int32_t>& order() const { return order_; }

 private:
  std::string_view NameOf(int32_t initializer) const {
    return graph_.values[Index(graph_.initializers[Index(initializer)].value)].name;
  }

  bool IsLater(int32_t a, int32_t b) const {
    const auto in_layer_a = place_in_layer_.find(InAnyLayer(NameOf(a)));
    const auto in_layer_b = place_in_layer_.find(InAnyLayer(NameOf(b)));
    const bool are_known = in_layer_a != place_in_layer_.end() &&
                           in_layer_b != place_in_layer_.end() &&
                           NumberedLayer(NameOf(a)) == NumberedLayer(NameOf(b));
    return are_known ? in_layer_a->second > in_layer_b->second : FirstUse(a) > FirstUse(b);
  }

  size_t FirstUse(int32_t initializer) const {
    const auto use = first_use_.find(graph_.initializers[Index(initializer)].value);
    return use == first_use_.end() ? std::numeric_limits<size_t>::max() : use->second;
  }

  size_t PlaceBeside(int32_t initializer) const {
    size_t most = 0;
    for (const int32_t other : order_) {
      most = std::max(most, SharedPath(NameOf(other), NameOf(initializer)));
    }
    size_t behind = order_.size();
    for (size_t i = 0; i < order_.size(); ++i) {
      if (SharedPath(NameOf(order_[i]), NameOf(initializer)) != most) continue;
      if (i >= earliest_ && IsLater(order_[i], initializer)) return i;
      behind = i + 1;
    }
    return behind;
  }

  const Graph& graph_;
  std::vector<int32_t> order_;                    // indices of initializers
  size_t earliest_ = 0;                           // place of what comes next
  std::map<std::string, size_t> place_in_layer_;  // as in the last one, all of which is moved
  std::unordered_map<ValueId, size_t> first_use_;
};

}  // namespace

void PlaceMerged(Graph& graph, size_t first) {
  Placer placer(graph, first);
  for (size_t i = first; i < graph.initializers.size(); ++i) placer.Place(static_cast<int32_t>(i));
  std::vector<Initializer> ordered;
  for (const int32_t i : placer.order()) ordered.push_back(graph.initializers[Index(i)]);
  graph.initializers = std::move(ordered);
  for (size_t i = 0; i < graph.initializers.size(); ++i) {
    graph.values[Index(graph.initializers[i].value)].initializer = static_cast<int32_t>(i);
  }
}

}  // namespace onnxfit

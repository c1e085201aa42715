#include "estimator/onnx/topological.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace onnxfit {
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

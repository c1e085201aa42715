// Dinic's algorithm: flow along shortest ways until there is none.
#include "estimator/base/min_cut.h"

#include <algorithm>
#include <deque>

#include "estimator/base/index.h"

namespace onnxfit {

int32_t MinCut::AddNode() {
  of_node_.emplace_back();
  return static_cast<int32_t>(of_node_.size() - 1);
}

void MinCut::AddEdge(int32_t from, int32_t to, int64_t cost) {
  of_node_[Index(from)].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({to, cost});
  of_node_[Index(to)].push_back(static_cast<int32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::FindLevels() {
  level_.assign(of_node_.size(), -1);
  level_[kSource] = 0;
  std::deque<int32_t> waiting = {kSource};
  for (; !waiting.empty(); waiting.pop_front()) {
    for (const int32_t number : of_node_[Index(waiting.front())]) {
      const Edge& edge = edges_[Index(number)];
      if (edge.left == 0 || level_[Index(edge.to)] >= 0) continue;
      level_[Index(edge.to)] = level_[Index(waiting.front())] + 1;
      waiting.push_back(edge.to);
    }
  }
  return level_[kSink] >= 0;
}

// One way from `node` on, with the stack of its own: programs are deep.
int64_t MinCut::Push(int32_t node, int64_t most) {
  std::vector<int32_t> way;  // edges
  for (int32_t at = node; at != kSink;) {
    size_t& next = next_[Index(at)];
    const std::vector<int32_t>& edges = of_node_[Index(at)];
    const auto leads_on = [&](int32_t number) {
      const Edge& edge = edges_[Index(number)];
      return edge.left > 0 && level_[Index(edge.to)] == level_[Index(at)] + 1;
    };
    while (next < edges.size() && !leads_on(edges[next])) ++next;
    if (next < edges.size()) {
      way.push_back(edges[next]);
      at = edges_[Index(edges[next])].to;
    } else if (way.empty()) {
      return 0;
    } else {  // a dead end
      at = edges_[Index(way.back() ^ 1)].to;
      ++next_[Index(at)];
      way.pop_back();
    }
  }
  for (const int32_t number : way) most = std::min(most, edges_[Index(number)].left);
  for (const int32_t number : way) {
    edges_[Index(number)].left -= most;
    edges_[Index(number ^ 1)].left += most;
  }
  return most;
}

std::vector<bool> MinCut::SideOfSink() {
  while (FindLevels()) {
    next_.assign(of_node_.size(), 0);
    while (Push(kSource, kUncuttable) > 0) {
    }
  }
  std::vector<bool> reaches(of_node_.size());
  reaches[kSink] = true;
  std::deque<int32_t> waiting = {kSink};
  for (; !waiting.empty(); waiting.pop_front()) {
    for (const int32_t number : of_node_[Index(waiting.front())]) {
      const int32_t before = edges_[Index(number)].to;  // its edge here is the other of the pair
      if (edges_[Index(number ^ 1)].left == 0 || reaches[Index(before)]) continue;
      reaches[Index(before)] = true;
      waiting.push_back(before);
    }
  }
  return reaches;
}

}  // namespace onnxfit

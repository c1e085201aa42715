// The cheapest edges of a network to cut, so that nothing flows from its source to its sink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onnxfit {

class MinCut {
 public:
  static constexpr int64_t kUncuttable = int64_t{1} << 60;
  static constexpr int32_t kSource = 0;
  static constexpr int32_t kSink = 1;

  int32_t AddNode();
  // REQUIRES: what cuttable edges cost is less than kUncuttable together.
  void AddEdge(int32_t from, int32_t to, int64_t cost);

  // By node: whether it is on the sink's side.  Of cuts that cost the same, the one nearest to the
  // sink, as networkx has it (minimum_cut, flow/maxflow.py, networkx 3.6).  O(nodes² × edges), in
  // practice about edges × the length of paths.
  std::vector<bool> SideOfSink();

 private:
  struct Edge {
    int32_t to = 0;
    int64_t left = 0;  // the edge back is the one whose number differs in the last bit
  };

  bool FindLevels();
  int64_t Push(int32_t node, int64_t most);

  std::vector<Edge> edges_;
  std::vector<std::vector<int32_t>> of_node_ = std::vector<std::vector<int32_t>>(2);
  std::vector<int32_t> level_;
  std::vector<size_t> next_;  // by node: the first of its edges that may lead on
};

}  // namespace onnxfit

#include "estimator/base/min_cut.h"

#include <doctest/doctest.h>

#include <vector>

namespace onnxfit::min_cut_test {
namespace {

// Nodes 2, 3, 4, … in a row between source and sink, with these costs.
std::vector<bool> SidesOfRow(const std::vector<int64_t>& costs) {
  MinCut cut;
  int32_t before = MinCut::kSource;
  for (size_t i = 0; i + 1 < costs.size(); ++i) {
    const int32_t node = cut.AddNode();
    cut.AddEdge(before, node, costs[i]);
    before = node;
  }
  cut.AddEdge(before, MinCut::kSink, costs.back());
  return cut.SideOfSink();
}

TEST_CASE("the cheapest edge of a row is cut, of equals the one nearest to the sink") {
  CHECK(SidesOfRow({3, 1, 2}) == std::vector<bool>{false, true, false, true});
  CHECK(SidesOfRow({1, 3, 1}) == std::vector<bool>{false, true, false, false});
}

//        ┌── 5 ──▶ 2 ── 4 ──┐
// source ┤         │ 3      ├▶ sink      the cheapest: 4 + 5, of 2 ▶ sink and 3 ▶ sink
//        └── 6 ──▶ 3 ── 5 ──┘
TEST_CASE("flow that has taken a way is led another one where that lets more through") {
  MinCut cut;
  const int32_t a = cut.AddNode();
  const int32_t b = cut.AddNode();
  cut.AddEdge(MinCut::kSource, a, 5);
  cut.AddEdge(MinCut::kSource, b, 6);
  cut.AddEdge(a, b, 3);
  cut.AddEdge(a, MinCut::kSink, 4);
  cut.AddEdge(b, MinCut::kSink, 5);
  CHECK(cut.SideOfSink() == std::vector<bool>{false, true, false, false});
}

TEST_CASE("where no way leads through, nothing is cut") {
  MinCut cut;
  const int32_t lone = cut.AddNode();
  cut.AddEdge(MinCut::kSource, lone, MinCut::kUncuttable);
  CHECK(cut.SideOfSink() == std::vector<bool>{false, true, false});
}

}  // namespace
}  // namespace onnxfit::min_cut_test

#include "estimator/program/ties.h"

#include <doctest/doctest.h>

#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit {
namespace {

// An embedding and a head of one table, of which the file keeps `kept`.
Graph Tied(const char* kept) {
  Graph graph = ParseGraph("net (int64[N] ids) => (float[N, 9] y) < float[9, 4] \"" +
                           std::string(kept) + R"(" = ["location": "none"] > {
      [e] e = Gather (")" + kept + R"(", ids)
      [t] t = Transpose <perm = [1, 0]> (")" + kept + R"(") [h] y = MatMul (e, t) })");
  graph.metadata.emplace_back("pkg.torch.export.ExportedProgram.graph_signature",
                              "p_wte_weight: PARAMETER target='wte.weight'\n"
                              "p_head_weight: PARAMETER target='head.weight'\n");
  return graph;
}

void Say(Graph& graph, size_t node, const char* fx, const char* scopes) {
  graph.nodes[node].metadata.emplace_back("pkg.torch.onnx.fx_node", fx);
  graph.nodes[node].metadata.emplace_back("pkg.torch.onnx.name_scopes", scopes);
}

TEST_CASE("a tied parameter goes by the name that is listed first") {
  Graph graph = Tied("head.weight");
  Say(graph, 0,
      "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = "
      "(%p_head_weight, %ids), kwargs = {})",
      "['', 'wte', 'e']");
  Say(graph, 2,
      "%y : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%e, "
      "%p_head_weight), kwargs = {})",
      "['', 'head', 'y']");
  const auto names = FindFirstNames(graph, ReadExporterMetadata(graph));
  REQUIRE(names.size() == 1);
  CHECK(names.begin()->first == "head.weight");
  CHECK(names.begin()->second == "wte.weight");
}

TEST_CASE("what a module's own calls read is no other parameter") {
  Graph graph = Tied("wte.weight");
  Say(graph, 0,
      "%e : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = "
      "(%p_wte_weight, %ids), kwargs = {})",
      "['', 'wte', 'e']");
  CHECK(FindFirstNames(graph, ReadExporterMetadata(graph)).empty());
}

}  // namespace
}  // namespace onnxfit

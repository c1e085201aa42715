#include "estimator/recover/ties.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/recover/exporter_metadata.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::ties_test {
namespace {

// An embedding and a head of one table, which the file keeps as `kept` and calls name `operand`.
std::string FirstNames(const std::string& kept, const std::string& operand) {
  Graph graph = ParseGraph("net (int64[N] ids) => (float[N, 9] y) < float[9, 4] \"" + kept +
                           R"(" = ["location": "none"] > { e = Gather (")" + kept +
                           R"(", ids) t = Transpose <perm = [1, 0]> (")" + kept +
                           R"(") y = MatMul (e, t) })");
  graph.metadata.emplace_back("graph_signature",
                              "p_wte_weight: PARAMETER target='wte.weight'\n"
                              "p_head_weight: PARAMETER target='head.weight'\n");
  const std::string embedding = FxText("e", "embedding.default", operand + ", %ids");
  const std::string linear = FxText("y", "linear.default", "%e, " + operand);
  Say(graph, 0, embedding);
  Say(graph, 2, linear);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'wte', 'e']");
  graph.nodes[2].metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'head', 'y']");
  std::string names;
  for (const auto& [stored, first] : FindFirstNames(graph, ReadExporterMetadata(graph))) {
    names += std::string(stored) + " is " + std::string(first);
  }
  return names;
}

TEST_CASE("a tied parameter goes by the name that is listed first") {
  CHECK(FirstNames("head.weight", "%p_head_weight") == "head.weight is wte.weight");
  CHECK(FirstNames("wte.weight", "%p_wte_weight").empty());
}

}  // namespace
}  // namespace onnxfit::ties_test

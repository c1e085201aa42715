#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/loader.h"
#include "estimator/parameters/roles.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::tied_tensors_test {
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

// Names of the initializers, those from `first` on moved.
std::string Placed(const std::string& initializers, size_t first, const std::string& nodes) {
  std::string declared;
  for (size_t start = 0; start < initializers.size();) {
    const size_t end = std::min(initializers.find(' ', start), initializers.size());
    declared += declared.empty() ? "" : ", ";
    declared += "float[2] \"" + initializers.substr(start, end - start) + "\" = {1, 2}";
    start = end + 1;
  }
  Graph graph = ParseGraph("n (float[2] x) => (float[2] y) <" + declared + "> {" + nodes + "}");
  PlaceMerged(graph, first);
  std::string names;
  for (size_t i = 0; i < graph.initializers.size(); ++i) {
    const Value& value = graph.values[Index(graph.initializers[i].value)];
    CHECK(value.initializer == static_cast<int32_t>(i));
    names += std::string(value.name) + " ";
  }
  return names;
}

TEST_CASE("merged tensors stand beside those of their module") {
  CHECK(Placed("a.fc.weight a.norm.weight b.fc.weight a.norm.bias b.fc.bias", 3,
               R"(h = Mul (x, "a.norm.weight") y = Add (h, "a.norm.bias"))") ==
        "a.fc.weight a.norm.weight a.norm.bias b.fc.weight b.fc.bias ");
}

TEST_CASE("in a module merged tensors stand in front of what is used later") {
  CHECK(Placed("a.first.bias a.third.bias a.second.bias", 2,
               R"(h = Add (x, "a.first.bias") g = Add (h, "a.second.bias")
                  y = Add (g, "a.third.bias"))") == "a.first.bias a.second.bias a.third.bias ");
}

TEST_CASE("a layer is in the order of the last one, of which all is merged") {
  CHECK(Placed("l.0.norm.bias l.0.mlp.bias end.bias l.0.attn.bias l.1.attn.bias l.1.norm.bias "
               "l.1.mlp.bias",
               3,
               R"(h = Add (x, "l.0.norm.bias") g = Add (h, "l.0.attn.bias")
                  y = Add (g, "l.0.mlp.bias"))") ==
        "l.0.attn.bias l.0.norm.bias l.0.mlp.bias l.1.attn.bias l.1.norm.bias l.1.mlp.bias "
        "end.bias ");
}

}  // namespace
}  // namespace onnxfit::tied_tensors_test

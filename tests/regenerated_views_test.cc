#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exported_groups.h"
#include "estimator/patterns/rewrites.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::regenerated_views_test {
namespace {

// Halves of x, of which the first is read of one split, both of the other.
constexpr char kHalves[] = R"(n (float[4] x) => (float[2] y, float[2] z, float[2] v) {
    two = Constant <value = int64 {2}> () i = Constant <value = int64 {0}> ()
    j = Constant <value = int64 {1}> ()
    l = SplitToSequence <axis = 0> (x, two) a = SequenceAt (l, i)
    y = Neg (a)
    m = SplitToSequence <axis = 0> (x, two) b = SequenceAt (m, j) c = SequenceAt (m, i)
    z = Neg (b) v = Neg (c)
  })";

// "aten(input)=results at module" of every call, where the splits are of these lines and modules.
std::string Found(const std::string& first, const std::string& second) {
  Graph graph = ParseGraph(kHalves);
  const std::string calls[] = {FxText("l", "split.Tensor", "%x, 2, 0"),
                               FxText("m", "split.Tensor", "%x, 2, 0")};
  const std::string lines[] = {"File \"net.py\", line 3, in forward\n  " + first + "\n",
                               "File \"net.py\", line 3, in forward\n  " + second + "\n"};
  const NodeId splits[] = {3, 6};
  for (size_t i = 0; i < 2; ++i) {
    auto& metadata = graph.nodes[Index(splits[i])].metadata;
    metadata.emplace_back("pkg.torch.onnx.fx_node", calls[i]);
    metadata.emplace_back("pkg.torch.onnx.stack_trace", lines[i]);
    metadata.emplace_back("pkg.torch.onnx.name_scopes",
                          i == 0 ? "['', 'net', 'net.a', 'l']" : "['', 'net', 'net.b', 'm']");
  }
  const BoundModel model(graph);
  std::string text;
  for (const Rewritten& call : FindRegeneratedParts(ExportedGroups(model.bound))) {
    text += std::string(call.aten) + "(" + std::string(model.bound.NameOf(call.inputs[0])) + ")=";
    for (const ValueId result : call.results) text += std::string(model.bound.NameOf(result)) + " ";
    if (call.module.has_value()) text += "at " + model.metadata.modules.PathOf(*call.module) + " ";
  }
  return text;
}

TEST_CASE("equal splits of one line are one, of the module that all are in") {
  CHECK(Found("a, b = x.split(2)", "a, b = x.split(2)") == "split(x)=a b at net (a)=");
  CHECK(Found("a, b = x.split(2)", "c, d = x.split(2)").empty());
}

}  // namespace
}  // namespace onnxfit::regenerated_views_test

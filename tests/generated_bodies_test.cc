#include "estimator/lost/generated_bodies.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::generated_bodies_test {
namespace {

// Of a body that runs `target` in module "net.table": what leaves autocast, autograd.
std::string Leaves(const std::string& target, const std::string& line) {
  Graph graph = ParseGraph("n (float[4] x) => (float[4] y) { y = Neg (x) }");
  const std::string call = FxText("y", target, "%x");
  const std::string lines = "File \"net.py\", line 5, in forward\n  " + line + "\n";
  Say(graph, 0, call);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", lines);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                       "['', 'net', 'net.table', 'y']");
  const BoundModel model(std::move(graph));
  const GeneratedBodies& bodies = model.found.bodies;
  std::string text;
  for (const std::string& path : bodies.outside_autocast) text += "autocast at " + path;
  if (bodies.without_grad[0]) text += "autograd";
  return text;
}

TEST_CASE("a body of torch.no_grad() is one that autocast would not change") {
  CHECK(Leaves("matmul.default", "y = torch.ops.aten.f(x)") == "autocast at net.table");
  CHECK(Leaves("embedding.default", "y = torch.ops.aten.f(x)") == "autograd");
  CHECK(Leaves("embedding.default", "y = self.f(x)").empty());
  CHECK(Leaves("conv1d.default", "y = torch.ops.aten.f(x)") == "autograd");
  CHECK(Leaves("mv.default", "y = torch.ops.aten.f(x)") == "autograd");
  CHECK(Leaves("mv.default", "y = self.f(x)").empty());
}

// Calls of a training step, those without a history marked.
std::string Calls(const Graph& graph) {
  const PreparedRun built = Build(graph, {.loss = Loss::kNone});
  std::string text;
  for (const AtenCall& call : built.program.calls) {
    text += std::string(call.op) + (call.leaves_autograd ? "* " : " ");
  }
  return text;
}

constexpr char kFunction[] = R"(n (float[4] x) => (float[4] y) {
    ["/h/gelu_impl/Tanh"] t = Tanh (x) ["/h/gelu_impl/Mul"] y = Mul (x, t)
  })";

TEST_CASE("the forward of an autograd function keeps nothing but what its backward reads") {
  CHECK(Calls(ParseGraph(kFunction)) == "tanh* bloom_gelu ");
  Graph graph = ParseGraph(kFunction);
  const std::string lines =
      "File \"transformers/models/bloom/modeling_bloom.py\", line 5, in "
      "forward\n  return bloom_gelu_forward(input)\n";
  for (Node& node : graph.nodes) {
    node.name = "";
    node.metadata.emplace_back("pkg.torch.onnx.stack_trace", lines);
    node.metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'h', 'h.gelu', 'y']");
  }
  CHECK(Calls(graph) == "tanh* bloom_gelu ");
}

TEST_CASE("what a library runs under torch.no_grad() is known by the child beside it") {
  const auto calls = [](const std::string& first) {
    return Calls(ParseGraph(R"(n (float[4] x) => (float[4] y) {
        ["/m/)" + first + R"(/block.0/Tanh"] t = Tanh (x) ["/m/bottleneck/Exp"] e = Exp (t)
        ["/m/data_proj/Neg"] y = Neg (e)
      })"));
  };
  CHECK(calls("dac_encoder") == "tanh* exp* neg ");
  CHECK(calls("encoder") == "tanh exp neg ");
}

}  // namespace
}  // namespace onnxfit::generated_bodies_test

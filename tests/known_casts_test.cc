#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/lost/lost_calls.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::known_casts_test {
namespace {

// "to.inline q before s; " for every cast that is known in the graph.
std::string Told(const Graph& graph) {
  const BoundModel model(graph);
  const auto name = [&](ValueId value) { return model.bound.NameOf(value); };
  const auto made = [&](NodeId node) { return name(model.bound.At(node).outputs[0]); };
  std::string text;
  for (const LostCall& call : FindKnownCasts(model.bound)) {
    text += fmt::format("{} {}", call.op, name(call.input));
    if (call.like != kNoValue) text += fmt::format(" {}", name(call.like));
    if (call.before != kNoNode) text += fmt::format(" before {}", made(call.before));
    if (call.behind != kNoNode) text += fmt::format(" behind {}", made(call.behind));
    text += "; ";
  }
  return text;
}

TEST_CASE("linear attention in fp32 casts its states, and its result back") {
  Graph graph = ParseGraph(R"(n (float[2, 4] x) => (float[2, 4] y) {
      q = Transpose <perm = [1, 0]> (x) v = Neg (q) s = Abs (v) d = Div (s, s)
      y = Transpose <perm = [1, 0]> (d)
    })");
  const std::string calls[] = {
      FxText("q", "permute.default", "%x, [1, 0]"), FxText("v", "view.default", "%q, [4, 2]"),
      FxText("s", "slice.Tensor", "%v,"), FxText("d", "div.Tensor", "%s, %s"),
      FxText("y", "permute.default", "%d, [1, 0]")};
  const std::string trace =
      "File \"diffusers/models/attention_processor.py\", line 7, in forward\n  return "
      "self.processor(self, hidden_states)\n";
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Say(graph, static_cast<NodeId>(i), calls[i]);
    graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  }
  CHECK(Told(graph) == "to.inline q before v; to.inline v before s; type_as.inline d x behind d; ");
}

TEST_CASE("a scan is in fp32 in a file without lines, too, known by its parameter") {
  const auto casts = [](const char* child) {
    return Told(ParseGraph(fmt::format(
        R"(n (float[2, 3] x) => (float[2, 1, 1, 3] y)
        < float[2, 3] "m.A_log" = ["location": "none"], int64[2] axes = {{1, 2}} > {{
          ["/m/{}/Neg"] b = Neg (x) ["/m/Exp"] a = Exp ("m.A_log")
          ["/m/Unsqueeze"] u = Unsqueeze (x, axes) ["/m/Unsqueeze_1"] v = Unsqueeze (a, axes)
          ["/m/Unsqueeze_2"] w = Unsqueeze (b, axes)
          ["/m/Mul"] p = Mul (u, v) ["/m/Mul_1"] q = Mul (p, w) ["/m/Mul_2"] y = Mul (q, u) }})",
        child)));
  };
  CHECK(casts("x_proj") ==
        "to.inline m.A_log before a; to.inline w before q; to.inline u before y; ");
  CHECK(casts("in_proj").empty());
}

TEST_CASE("a scan multiplies its state in the type of the other factor") {
  const auto casts = [](const char* child) {
    return Told(ParseGraph(fmt::format(
        R"(n (float[2, 3, 4] x, float[2, 4, 1] c) => (float[2, 3, 1] y)
        < float[2, 3] "m.A_log" = ["location": "none"] > {{
          ["/m/{}/Neg"] b = Neg (x) ["/m/Exp"] a = Exp ("m.A_log")
          ["/m/MatMul"] y = MatMul (b, c) }})",
        child)));
  };
  CHECK(casts("x_proj") == "to.inline m.A_log before a; type_as.inline b c before y; ");
  CHECK(casts("in_proj").empty());
}

// Of "with torch.autocast(enabled=False): y = attend(q.float(), k.float()).to(dtype)".
TEST_CASE("what a line of torch.export's calls a cast is one") {
  const std::string line = "matmul = torch.ops.aten.matmul.default(to, to_1);  to = to_1 = None";
  Graph graph = ParseGraph(R"(n (float[2, 4, 4] x) => (float[2, 4, 4] y) {
      q = Neg (x) k = Abs (x) s = MatMul (q, k) y = Exp (s)
    })");
  const std::string calls[] = {FxText("q", "neg.default", "%x,"), FxText("k", "abs.default", "%x,"),
                               FxText("s", "matmul.default", "%q, %k"),
                               FxText("y", "exp.default", "%s,")};
  const std::string trace = fmt::format("File \"<eval>\", line 7, in forward\n  {}\n", line);
  for (size_t i = 0; i < graph.nodes.size(); ++i) Say(graph, static_cast<NodeId>(i), calls[i]);
  graph.nodes[2].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  CHECK(Told(graph) == "to.inline q before s; to.inline k before s; type_as.inline s q behind s; ");
}

}  // namespace
}  // namespace onnxfit::known_casts_test

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/recover/lost_calls.h"
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

constexpr char kAttention[] = R"(n (float[2, 4, 4] q, float[2, 4, 4] k) => (float[2, 4, 4] y) {
    s = MatMul (q, k) w = Softmax (s) m = MatMul (w, k) y = Neg (m)
  })";

// What is cast on the way through `line` of the file: "to.inline q before s; ".
std::string Casts(const std::string& file, const std::string& line) {
  const std::string calls[] = {
      FxText("s", "matmul.default", "%q, %k"), FxText("w", "softmax.int", "%s, -1"),
      FxText("m", "matmul.default", "%w, %k"), FxText("y", "linear.default", "%m, %k")};
  const std::string trace = fmt::format("File \"{}\", line 7, in forward\n  {}\n", file, line);
  Graph graph = ParseGraph(kAttention);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Say(graph, static_cast<NodeId>(i), calls[i]);
    graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  }
  return Told(graph);
}

TEST_CASE("what a library casts in lines that the file does not show is cast") {
  const std::string line = "attn_output, attn_weights = self._attn(query, key, value, mask)";
  CHECK(Casts("transformers/models/gptj/modeling_gptj.py", line) ==
        "to.inline q before s; to.inline k before s; type_as.inline w k before m; ");
  CHECK(Casts("mine/modeling_gptj.py", line).empty());
  CHECK(Casts("transformers/models/gptj/modeling_gptj.py", "x = attend(x)").empty());
}

TEST_CASE("a cast at the end of a line is of what the line's call makes") {
  CHECK(Casts("transformers/models/mamba/modeling_mamba.py",
              "logits = self.lm_head(x.to(self.lm_head.weight.dtype)).float()") ==
        "to.inline y behind y; ");
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

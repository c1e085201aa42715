#include "estimator/recover/lost_stochastic_depth.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "estimator/recover/exporter_metadata.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lost_stochastic_depth_test {
namespace {

size_t CountLost(const std::string& text) {
  const Graph graph = ParseGraph(text);
  return FindLostStochasticDepths(
             graph, FindRewrites(graph, ReadExporterMetadata(graph), BindShapes(graph, {})))
      .size();
}

std::string Block(const std::string& activation) {
  return R"(net (float[2, 3, 4, 4] x) => (float[2, 3, 4, 4] y) {
    ["/net/features.1/block/block.0/Neg"] h = Neg (x)
    ["/net/features.1/block/block.0/Gate"] s = )" +
         activation + R"( (h)
    ["/net/features.1/block/block.0/Mul"] b = Mul (h, s)
    ["/net/features.1/Add"] y = Add (b, x)
  })";
}

TEST_CASE("a residual sum around a block with SiLU has lost stochastic depth") {
  CHECK(CountLost(Block("Sigmoid")) == 1);
  CHECK(CountLost(Block("HardSigmoid")) == 0);
  std::string ungated = Block("Sigmoid");
  ungated.replace(ungated.find("Mul (h, s)"), 10, "Neg (s)");
  CHECK(CountLost(ungated) == 0);
  const std::string program = ToString(Build(Block("Sigmoid"), {.loss = Loss::kNone}).program);
  CHECK_MESSAGE(program.find("%b.noise = bernoulli(%b)") != std::string::npos, program);
  CHECK(program.find("%b.stochastic_depth = mul(%b, %b.noise)") != std::string::npos);
  CHECK(program.find("%y = add(%b.stochastic_depth, %x)") != std::string::npos);
}

TEST_CASE("torch.export names the block, whose first one drops nothing") {
  const auto lost = [](const char* block, const char* type, const char* line) {
    Graph graph = ParseGraph(
        "net (float[2, 3] x, float[2, 3] b) => (float[2, 3] y) "
        "{ y = Add (x, b) }");
    const std::string scopes = fmt::format("['', '{}', 'add']", block);
    const std::string classes = fmt::format("['', 'torchvision.models.{}', 'aten.add']", type);
    const std::string source = fmt::format("File \"a.py\", line 3, in forward\n    {}", line);
    Metadata& metadata = graph.nodes[0].metadata;
    metadata.emplace_back("pkg.torch.onnx.name_scopes", scopes);
    metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
    metadata.emplace_back("pkg.torch.onnx.stack_trace", source);
    const auto found = FindLostStochasticDepths(graph, {});
    return found.empty() ? "" : std::string(graph.values[Index(found[0].branch)].name);
  };
  constexpr char kSwin[] = "swin_transformer.SwinTransformerBlock";
  constexpr char kSum[] = "x = x + self.stochastic_depth(self.mlp(self.norm2(x)))";
  CHECK(lost("features.1.1", kSwin, kSum) == "b");
  CHECK(lost("features.1.0", kSwin, kSum) == "");
  CHECK(lost("features.1.1", kSwin, "x = x + y") == "");
  CHECK(lost("features.1.1.attn", "swin_transformer.ShiftedWindowAttention", kSum) == "");
  CHECK(lost("features.3.1", "convnext.CNBlock", "result += input") == "x");
}

TEST_CASE("--dropout 0 and inference put nothing back") {
  const auto without =
      ToString(Build(Block("Sigmoid"), {.loss = Loss::kNone, .dropout = 0}).program);
  CHECK(without.find("bernoulli") == std::string::npos);
  const auto eval = ToString(Build(Block("Sigmoid"), {.mode = Mode::kEval}).program);
  CHECK(eval.find("bernoulli") == std::string::npos);
}

}  // namespace
}  // namespace onnxfit::lost_stochastic_depth_test

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "estimator/lost/lost_calls.h"
#include "tests/bound_model.h"
#include "tests/trace_helpers.h"

namespace onnxfit::residual_branches_test {
namespace {

size_t CountLost(const std::string& text) {
  const BoundModel model(ParseGraph(text));
  return FindLostStochasticDepths(model.bound, FindRewrites(model.bound)).size();
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

// A first block, and a second one: what is lost at the sum of each.
std::string LostInBlocks(const char* type, const char* line) {
  Graph graph = ParseGraph(R"(net (float[2, 3] x, float[2, 3] b) => (float[2, 3] y) {
    h = Add (x, b) y = Add (h, b) })");
  const std::string classes = fmt::format("['', 'torchvision.models.{}', 'aten.add']", type);
  const std::string source = fmt::format("File \"a.py\", line 3, in forward\n    {}", line);
  const std::string scopes[] = {"['', 'features.1.0', 'add']", "['', 'features.1.1', 'add_1']"};
  for (const size_t node : {size_t{0}, size_t{1}}) {
    Metadata& metadata = graph.nodes[node].metadata;
    metadata.emplace_back("pkg.torch.onnx.name_scopes", scopes[node]);
    metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
    metadata.emplace_back("pkg.torch.onnx.stack_trace", source);
  }
  std::string text;
  for (const auto& [sum, branch] : FindLostStochasticDepths(BoundModel(graph).bound, {})) {
    text += fmt::format("{} in {} ", graph.values[Index(branch)].name, sum);
  }
  return text;
}

TEST_CASE("torch.export names the block, whose first one drops nothing") {
  constexpr char kSwin[] = "swin_transformer.SwinTransformerBlock";
  constexpr char kSum[] = "x = x + self.stochastic_depth(self.mlp(self.norm2(x)))";
  CHECK(LostInBlocks(kSwin, kSum) == "b in 1 ");
  CHECK(LostInBlocks(kSwin, "x = x + y") == "");
  CHECK(LostInBlocks("swin_transformer.ShiftedWindowAttention", kSum) == "");
  CHECK(LostInBlocks("convnext.CNBlock", "result += input") == "h in 1 ");
}

TEST_CASE("--dropout 0 and inference put nothing back") {
  const auto without =
      ToString(Build(Block("Sigmoid"), {.loss = Loss::kNone, .dropout = 0}).program);
  CHECK(without.find("bernoulli") == std::string::npos);
  const auto eval = ToString(Build(Block("Sigmoid"), {.mode = Mode::kEval}).program);
  CHECK(eval.find("bernoulli") == std::string::npos);
}

}  // namespace
}  // namespace onnxfit::residual_branches_test

#include "estimator/program/habits.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::habits_test {
namespace {

size_t Found(const std::string& body) {
  return FindOutOfPlaceActivations(ParseGraph("n (float[4] x) => (float[4] y) { " + body + " }"))
      .size();
}

TEST_CASE("torchvision's SqueezeExcitation is known by its children") {
  CHECK(Found(R"(["/m/se/fc1/Neg"] a = Neg (x) ["/m/se/activation/Relu"] b = Relu (a)
                 ["/m/se/scale_activation/Sigmoid"] y = Sigmoid (b))") == 1);
  CHECK(Found(R"(["/m/block.1/activation/Relu"] b = Relu (x)
                 ["/m/block.1/scale_activation/Sigmoid"] y = Sigmoid (b))") == 1);
  CHECK(Found(R"(["/m/a/activation/Relu"] b = Relu (x)
                 ["/m/b/scale_activation/Sigmoid"] y = Sigmoid (b))") == 0);
  CHECK(Found(R"(["/m/se/activation/Elu"] b = Elu (x)
                 ["/m/se/scale_activation/Sigmoid"] y = Sigmoid (b))") == 0);
  CHECK(Found(R"(["/m/activation/Relu"] y = Relu (x))") == 0);
}

TEST_CASE("libraries are known that make activations without arguments") {
  const auto found = [](const char* caller, const char* module) {
    Graph graph = ParseGraph("n (float[4] x) => (float[4] y) { y = Relu (x) }");
    const std::string classes =
        fmt::format("['', '{}', '{}', 'aten.relu.default']", caller, module);
    graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
    return FindOutOfPlaceActivations(graph).size();
  };
  constexpr char kRelu[] = "torch.nn.modules.activation.ReLU";
  CHECK(found("diffusers.models.resnet.ResnetBlock2D", kRelu) == 1);
  CHECK(found("transformers.models.opt.modeling_opt.OPTDecoderLayer", kRelu) == 1);
  CHECK(found("torchvision.models.resnet.BasicBlock", kRelu) == 0);
  CHECK(found("diffusers.models.resnet.ResnetBlock2D", "mine.Activation") == 0);
}

// Its ReLU could write over its input, and does not.
TEST_CASE("what is known not to work in place does not") {
  const auto trace = [](const std::string& module) {
    return TraceText(R"(n (float[8, 4] x) => (float[8, 4] y) {
                          ["/se/fc/Neg"] a = Neg (x) ["/se/)" +
                         module + R"("] b = Relu (a)
                          ["/se/scale_activation/Sigmoid"] y = Sigmoid (b) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("activation/Relu").find("+b:128") != std::string::npos);
  CHECK(trace("other/Relu").find("+b:128") == std::string::npos);
}

TEST_CASE("a sum of what two gathers picked is written in place") {
  const auto summed = [](const std::string& body) {
    return FindInPlaceSums(ParseGraph(R"(n (float[2, 2] x, int64[2, 2] i) => (float[2, 2] y) {
        two = Constant <value = float {2}> ()
        g = GatherElements (x, i) h = GatherElements (x, i) )" +
                                      body + " }"));
  };
  CHECK(summed("a = Div (g, two) t = Transpose (h) b = Div (t, two) y = Add (a, b)") ==
        std::set<NodeId>{6});
  CHECK(summed("y = Add (g, x)").empty());
  CHECK(summed("y = Mul (g, h)").empty());
  CHECK(summed("r = Relu (h) y = Add (g, r)").empty());
}

TEST_CASE("models with attention write over nothing") {
  const auto trace = [](const std::string& weighs) {
    return TraceText(R"(n (float[8, 4, 4] x) => (float[8, 4, 4] y) {
                          w = Softmax (x) v = )" +
                         weighs + R"( a = Neg (v) [sum] y = Add (a, x) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("MatMul (w, x)").find("+y:512") != std::string::npos);
  CHECK(trace("Neg (w)").find("+y:512") == std::string::npos);
}

}  // namespace
}  // namespace onnxfit::habits_test

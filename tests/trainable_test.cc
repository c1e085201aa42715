#include <doctest/doctest.h>

#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/parameters/roles.h"
#include "tests/trace_helpers.h"

namespace onnxfit::trainable_test {
namespace {

// The sentence with which training `graph` is refused, or "".
std::string Refusal(const char* graph, const TrainingSettings& settings = {}) {
  try {
    MakeEstimate(ParseGraph(graph), {.settings = settings});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr char kIntegers[] = "net (int64[N, 4] x) => (int64[N, 4] y) { y = Add (x, x) }";
constexpr char kNoParameters[] = "net (float[N, 4] x) => (float[N, 4] y) { y = Relu (x) }";
constexpr char kNoPath[] = R"(
  net (float[N, 4] x) => (float[N] y, float[N, 2] z) < float[4, 2] w = ["location": "none"] > {
    z = MatMul (x, w)
    i = ArgMax <axis = 1, keepdims = 0> (z)
    y = Cast <to = 1> (i)
  })";
constexpr char kQuantized[] = R"(
  net (float[N, 4] x) => (float[N, 8] y)
  < int8[4, 8] q = ["location": "none"], float s = {0.1}, int8 z = {0},
    float[8] "fc.bias" = ["location": "none"] > {
    w = DequantizeLinear (q, s, z)
    h = MatMul (x, w)
    y = Add (h, "fc.bias")
  })";
constexpr char kAdapter[] = R"(
  net (float[N, 4] x) => (float[N, 8] y)
  < int8[4, 8] q = ["location": "none"], float s = {0.1}, int8 z = {0},
    float[4, 2] "lora.a" = ["location": "none"], float[2, 8] "lora.b" = ["location": "none"] > {
    w = DequantizeLinear (q, s, z)
    h = MatMul (x, w)
    a = MatMul (x, "lora.a")
    b = MatMul (a, "lora.b")
    y = Add (h, b)
  })";

TEST_CASE("what has nothing to train is refused for training, with the reason") {
  struct Row {
    const char* graph;
    const char* why;
  };
  const Row rows[] = {
      {kIntegers, "no output holds floats, so there is no loss"},
      {kNoParameters, "it has no parameters"},
      {kNoPath,
       "no gradient flows from the loss to its one parameter (--loss-output names another output)"},
      {kQuantized,
       "its weights are integers, which have no gradient, the first at DequantizeLinear #0"},
  };
  for (const Row& row : rows) {
    CHECK(Refusal(row.graph) == std::string("<text>: this model cannot be trained: ") + row.why +
                                    " (try: --mode eval, for inference)");
    CHECK(Refusal(row.graph, {.mode = Mode::kEval}) == "");
    CHECK(Refusal(row.graph, {.loss = Loss::kNone}) == "");
  }
}

// exp(x @ omega - |x|² / 2)
TEST_CASE("random features that stand for a softmax are not trained") {
  const auto buffers = [](const char* square) {
    return FindFloatBuffers(ParseGraph((R"(
      net (float[2, 4] x) => (float[2, 8] y) < float[4, 8] omega = ["location": "none"] > {
        two = Constant <value = float {2.0}> () last = Constant <value = int64[1] {-1}> ()
        p = MatMul (x, omega) s = Pow ()" +
                                        std::string(square) + R"(, two)
        n = ReduceSum <keepdims = 1> (s, last) h = Div (n, two)
        d = Sub (p, h) y = Exp (d) })")
                                           .c_str()))
        .size();
  };
  CHECK(buffers("x") == 1);
  CHECK(buffers("p") == 0);
}

TEST_CASE("another output may have a way to the parameters") {
  CHECK(Refusal(kNoPath, {.loss_output = "z"}) == "");
}

TEST_CASE("adapters beside quantized weights are trained") { CHECK(Refusal(kAdapter) == ""); }

TEST_CASE("all parameters frozen are refused") {
  CHECK(Refusal(kTwoLayers, {.freeze = {"*"}}) ==
        "<text>: this model cannot be trained: all parameters are frozen (try: --mode eval, for "
        "inference, or "
        "a narrower --freeze)");
}

TEST_CASE("weights of integers are in memory, and no parameters") {
  const Roles roles = Build(kQuantized, {.mode = Mode::kEval}).roles;
  REQUIRE(roles.buffers.size() == 1);
  CHECK(roles.buffers[0].name == "q");
  CHECK(roles.BufferBytes() == 4 * 8);
  CHECK(roles.ParameterBytes() == 4 * 8);  // the bias
}

}  // namespace
}  // namespace onnxfit::trainable_test

#include <doctest/doctest.h>

#include <string>

#include "estimator/parameters/roles.h"
#include "tests/trace_helpers.h"

namespace onnxfit::folded_weights_test {
namespace {

std::string ParametersOf(const PreparedRun& built) {
  std::string text;
  for (const ModuleTensor& tensor : built.roles.parameters) text += tensor.name + " ";
  return text;
}

constexpr char kAbsent[] = R"(= ["location": "none"])";

std::string Weights(const std::string& declarations) {
  std::string text = declarations;
  for (size_t at = text.find(';'); at != std::string::npos; at = text.find(';', at)) {
    text.replace(at, 1, std::string(kAbsent) + ",");
  }
  return text + " float[1] unused = {1}";
}

TEST_CASE("a weight that lost its name stands where the module has it") {
  struct Row {
    std::string name;
    std::string weights;
    const char* body;
    const char* parameters;
  };
  const Row rows[] = {
      {"in front of its bias",
       R"(float[4] "m.fc.bias"; float[4] "m.out.bias"; float[4, 4] "onnx::MatMul_9"; )",
       R"(["/m/fc/MatMul"] h = MatMul (x, "onnx::MatMul_9") ["/m/fc/Add"] g = Add ("m.fc.bias", h)
          ["/m/out/Add"] y = Add (g, "m.out.bias"))",
       "m.fc.weight m.fc.bias m.out.bias "},
      {"beside its bias, where the scope leaves out a module",
       R"(float[4] "m.n.fc.bias"; float[4] "m.n.out.bias"; float[4, 4] "onnx::MatMul_9"; )",
       R"(["/m/fc/MatMul"] h = MatMul (x, "onnx::MatMul_9")
          ["/m/fc/Add"] g = Add ("m.n.fc.bias", h) ["/m/Add"] y = Add (g, "m.n.out.bias"))",
       "m.n.fc.weight m.n.fc.bias m.n.out.bias "},
      {"one of a module that is called twice",
       R"(float[4] "m.fc.bias"; float[4] "m.out.bias"; float[4, 4] "onnx::MatMul_9"; )",
       R"("onnx::MatMul_10" = Identity ("onnx::MatMul_9")
          ["/m/fc/MatMul"] h = MatMul (x, "onnx::MatMul_9") ["/m/fc/Add"] g = Add ("m.fc.bias", h)
          ["/m/out/Add"] i = Add (g, "m.out.bias")
          ["/m/fc_1/MatMul"] j = MatMul (i, "onnx::MatMul_10")
          ["/m/fc_1/Add"] y = Add ("m.fc.bias", j))",
       "m.fc.weight m.fc.bias m.out.bias "},
      {"in its module, though what was merged comes last",
       R"(float[4] "m.a.bias"; float[4] "m.head.bias"; )",
       R"("m.a.norm.bias" = Identity ("m.a.bias") ["/m/a/Add"] h = Add (x, "m.a.bias")
          ["/m/a/norm/Add"] g = Add (h, "m.a.norm.bias")
          ["/m/head/Add"] y = Add (g, "m.head.bias"))",
       "m.a.bias m.a.norm.bias m.head.bias "},
      {"MultiheadAttention's is called otherwise",
       R"(float[4] "m.attn.in_proj_bias"; float[4, 4] "onnx::MatMul_9"; )",
       R"(["/m/attn/MatMul"] h = MatMul (x, "onnx::MatMul_9")
          ["/m/attn/Add"] y = Add ("m.attn.in_proj_bias", h))",
       "m.attn.in_proj_weight m.attn.in_proj_bias "},
      {"in front of a norm that transformers lists last",
       R"(float[4] "m.layers.0.input_layernorm.weight"; float[4] "m.norm.weight";
          float[4, 4] "onnx::MatMul_9"; )",
       R"(["/m/layers.0/input_layernorm/Mul"] n = Mul (x, "m.layers.0.input_layernorm.weight")
          ["/m/layers.0/mlp/up/MatMul"] h = MatMul (n, "onnx::MatMul_9")
          ["/m/norm/Mul"] y = Mul (h, "m.norm.weight"))",
       "m.layers.0.mlp.up.weight m.layers.0.input_layernorm.weight m.norm.weight "},
      {"in front of what is used later",
       R"(float[4] "m.h.0.ln_1.weight"; float[4] "m.h.0.ln_2.weight"; float[4, 4] "onnx::MatMul_9"; )",
       R"(["/m/h.0/ln_1/Mul"] n = Mul (x, "m.h.0.ln_1.weight")
          ["/m/h.0/attn/c/MatMul"] h = MatMul (n, "onnx::MatMul_9")
          ["/m/h.0/ln_2/Mul"] y = Mul (h, "m.h.0.ln_2.weight"))",
       "m.h.0.ln_1.weight m.h.0.attn.c.weight m.h.0.ln_2.weight "},
      {"the head behind all",
       R"(float[4] "m.layers.0.input_layernorm.weight"; float[4, 4] "onnx::MatMul_9"; )",
       R"(["/m/layers.0/input_layernorm/Mul"] n = Mul (x, "m.layers.0.input_layernorm.weight")
          ["/m/head/MatMul"] y = MatMul (n, "onnx::MatMul_9"))",
       "m.layers.0.input_layernorm.weight m.head.weight "},
      {"of a layer that is called twice", R"(float[4] "m.fc.bias"; float[4, 4] w; )",
       R"(["/m/fc/MatMul"] h = MatMul (x, w) ["/m/fc_1/MatMul"] g = MatMul (h, w)
          ["/m/fc/Add"] y = Add (g, "m.fc.bias"))",
       "m.fc.weight m.fc.bias "},
      {"one that is read elsewhere keeps its name", R"(float[4] "m.fc.bias"; float[4, 4] w; )",
       R"(["/m/fc/MatMul"] h = MatMul (x, w) ["/m/fc/Mul"] g = Mul (h, w)
          ["/m/fc/Add"] y = Add (g, "m.fc.bias"))",
       "w m.fc.bias "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const PreparedRun built = Build("net (float[3, 4, 4] x) => (float[3, 4, 4] y) < " +
                                        Weights(row.weights) + " > {" + row.body + "}",
                                    {});
    CHECK(ParametersOf(built) == row.parameters);
  }
}

TEST_CASE("a weight has its shape in the module, and a head may be an embedding's copy") {
  const auto built = [](const Assumed& assumed) {
    return Build("net (int64[2, 3] ids) => (float[2, 3, 10] y) < " +
                     Weights(R"(float[10, 4] "m.embed.weight"; float[4, 10] "onnx::MatMul_9"; )") +
                     R"( > { ["/m/embed/Gather"] e = Gather ("m.embed.weight", ids)
                             ["/m/head/MatMul"] y = MatMul (e, "onnx::MatMul_9") })",
                 {.dropout = 0, .assumed = assumed});
  };
  const PreparedRun tied = built({});
  CHECK(ParametersOf(tied) == "m.embed.weight ");
  CHECK(ToString(tied.program).find("matmul(%/m/embed/Gather_output_0") == std::string::npos);
  CHECK(ToString(tied.program).find("%y = linear(%e, %m.embed.weight)") != std::string::npos);
  REQUIRE(tied.roles.assumptions.size() == 1);
  CHECK(tied.roles.assumptions[0] ==
        "m.head.weight is taken to be m.embed.weight, tied: 160 B less are parameters (--assume "
        "tied-head=no, if it is not)");
  CHECK(ParametersOf(Build("net (int64[2, 3] ids) => (float[2, 3, 10] y) < " +
                               Weights(R"(float[10, 4] "m.embed.weight"; float[10] "m.head.bias"; )"
                                       R"(float[4, 10] "onnx::MatMul_9"; )") +
                               R"( > { ["/m/embed/Gather"] e = Gather ("m.embed.weight", ids)
                                       ["/m/head/MatMul"] h = MatMul (e, "onnx::MatMul_9")
                                       ["/m/head/Add"] y = Add (h, "m.head.bias") })",
                           {})) == "m.embed.weight m.head.weight m.head.bias ");
  const PreparedRun apart = built({.tied_head = false});
  CHECK(ParametersOf(apart) == "m.embed.weight m.head.weight ");
  CHECK(apart.roles.parameters[1].type.dims == Dims{10, 4});
  CHECK(apart.roles.assumptions.empty());
}

TEST_CASE("the elements that a file stores say whether a head is the embedding") {
  const auto built = [](const std::string& head, const Assumed& assumed) {
    return Build(
        "net (int64[2, 3] ids) => (float[2, 3, 3] y) < "
        "float[3, 2] \"m.embed.weight\" = {1, 2, 3, 4, 5, 6}, float[2, 3] \"onnx::MatMul_9\" = " +
            head + R"( > { ["/m/embed/Gather"] e = Gather ("m.embed.weight", ids)
                           ["/m/head/MatMul"] y = MatMul (e, "onnx::MatMul_9") })",
        {.dropout = 0, .assumed = assumed});
  };
  constexpr char kCopy[] = "{1, 3, 5, 2, 4, 6}";
  constexpr char kOther[] = "{9, 3, 5, 2, 4, 6}";
  const PreparedRun tied = built(kCopy, {});
  CHECK(ParametersOf(tied) == "m.embed.weight ");
  CHECK(tied.roles.doubts.empty());
  CHECK(tied.roles.assumptions.empty());
  const PreparedRun own = built(kOther, {});
  CHECK(ParametersOf(own) == "m.embed.weight m.head.weight ");
  CHECK(own.roles.doubts.empty());
  CHECK(own.roles.assumptions.empty());
  CHECK(ParametersOf(built(kCopy, {.tied_head = false})) == "m.embed.weight m.head.weight ");
  CHECK(ParametersOf(built(kOther, {.tied_head = true})) == "m.embed.weight ");
}

// Of Llama's kin the head is a weight of its own, unless words are scaled.
TEST_CASE("the head of a model with gated feed-forward blocks is its own") {
  const auto built = [](const std::string& words, const Assumed& assumed) {
    return Build("net (int64[2, 3] ids) => (float[2, 3, 10] y) < " +
                     Weights(R"(float[10, 4] "m.embed.weight"; float[4, 4] "onnx::MatMul_8"; )"
                             R"(float[4, 10] "onnx::MatMul_9"; )") +
                     R"( > { ["/m/embed/Gather"] w = Gather ("m.embed.weight", ids) )" + words +
                     R"( ["/m/layers.0/mlp/gate_proj/MatMul"] e = MatMul (x, "onnx::MatMul_8")
                         ["/m/head/MatMul"] y = MatMul (e, "onnx::MatMul_9") })",
                 {.dropout = 0, .assumed = assumed});
  };
  constexpr char kPlain[] = "x = Relu (w)";
  constexpr char kScaled[] = "two = Constant <value = float {2}> () x = Mul (w, two)";
  const PreparedRun own = built(kPlain, {});
  CHECK(own.roles.ties.empty());
  CHECK(own.roles.doubts == std::vector<Doubt>{Doubt::kTiedHead});
  REQUIRE(own.roles.assumptions.size() == 1);
  CHECK(own.roles.assumptions[0] ==
        "m.head.weight is not taken to be m.embed.weight, though it may be: 160 B more are "
        "parameters (--assume tied-head=yes, if they are tied)");
  CHECK(built(kPlain, {.tied_head = true}).roles.ties.size() == 1);
  CHECK(built(kScaled, {}).roles.ties.size() == 1);
}

}  // namespace
}  // namespace onnxfit::folded_weights_test

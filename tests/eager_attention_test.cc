#include "estimator/writer/eager_attention.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::eager_attention_test {
namespace {

// Two layers of attention of 4 heads over 3 positions, with keys and values of `heads`.
std::string TwoLayers(int heads, const std::string& attributes) {
  return fmt::format(
      R"(<ir_version: 10, opset_import: ["": 23]>
         net (float[2, 4, 3, 8] q, float[2, {0}, 3, 8] k, float[2, {0}, 3, 8] v)
           => (float[2, 4, 3, 8] y) {{
           ["/net/layers.0/attn/Attention"] a = Attention <{1}> (q, k, v)
           ["/net/layers.1/attn/Attention"] y = Attention <{1}> (a, k, v)
         }})",
      heads, attributes);
}

TrainingSettings Eager(Precision precision = Precision::kFp32) {
  return {.precision = precision,
          .mode = Mode::kEval,
          .loss = Loss::kNone,
          .attention = AttentionUse::kEager};
}

// The calls, without their places.
std::string Calls(const std::string& graph, const TrainingSettings& settings) {
  std::string text;
  for (const AtenCall& call : Build(graph, settings).program.calls) {
    text += std::string(call.op) + " ";
  }
  return text;
}

const std::string kWeights = "permute matmul mul.Scalar ";
const std::string kSoftmax = "to softmax type_as ";

TEST_CASE("attention is written out as transformers' eager attention") {
  const std::string plain = kWeights + kSoftmax + "matmul ";
  CHECK(Calls(TwoLayers(4, "scale = 0.5"), Eager()) == plain + plain);
  CHECK(Calls(TwoLayers(4, "scale = 0.5"), {.mode = Mode::kEval}) ==
        "scaled_dot_product_attention scaled_dot_product_attention ");
}

TEST_CASE("heads of keys and values that queries share are repeated") {
  const std::string repeat = "view expand view ";
  const std::string layer = repeat + repeat + kWeights + kSoftmax + "matmul ";
  CHECK(Calls(TwoLayers(2, "scale = 0.5"), Eager()) == layer + layer);
}

TEST_CASE("the layers share one causal mask") {
  const std::string masked = kWeights + "add " + kSoftmax + "matmul ";
  CHECK(Calls(TwoLayers(4, "is_causal = 1"), Eager()) ==
        "constant constant constant where " + masked + masked);
}

// [2, 1, 3, 3], in the type of the parameters.
TEST_CASE("a mask is as large as one head's weights") {
  const auto has = [](Precision precision, const char* event) {
    return TraceText(TwoLayers(4, "is_causal = 1"), Eager(precision)).find(event) !=
           std::string::npos;
  };
  CHECK(has(Precision::kFp32, "+a.where:72"));
  CHECK(has(Precision::kAmpBf16, "+a.where:72"));
  CHECK(has(Precision::kBf16, "+a.where:36"));
}

TEST_CASE("the softmax is in fp32, where it is not left to autocast") {
  const auto softmax = [](const char* module) {
    std::string graph = TwoLayers(4, "scale = 0.5");
    for (size_t at = 0; (at = graph.find("/attn/")) != std::string::npos;) {
      graph.replace(at, 6, fmt::format("/{}/", module));
    }
    return Calls(graph, Eager(Precision::kBf16)).find("type_as") != std::string::npos;
  };
  CHECK(softmax("self_attn"));
  CHECK_FALSE(softmax("self"));
  CHECK_FALSE(softmax("encoder_attn"));
}

TEST_CASE("in eval the weights live as long as their layer runs") {
  const std::string graph = R"(<ir_version: 10, opset_import: ["": 23]>
      net (float[2, 4, 3, 8] q) => (float[2, 4, 3, 8] y) {
        ["/net/layers.0/attn/Attention"] a = Attention <scale = 0.5> (q, q, q)
        ["/net/layers.0/act/Exp"] b = Exp (a)
        ["/net/act/Exp"] y = Exp (b)
      })";
  const Program program = Build(graph, Eager()).program;
  const auto dies = [&](size_t call, const std::string& name) {
    for (const NameId dead : program.calls[call].dies) {
      if (program.values[Index(dead)].name == name) return true;
    }
    return false;
  };
  const size_t last = program.calls.size() - 1;
  CHECK(dies(last - 1, "a.type_as"));
  CHECK(dies(2, "a.matmul"));  // the product has no name: with what scales it
}

// key_states = repeat_kv(k, 2), until the function returns what it transposes.
TEST_CASE("repeated heads live until eager attention returns") {
  const std::string graph = R"(<ir_version: 10, opset_import: ["": 23]>
      net (float[2, 4, 3, 8] q, float[2, 2, 3, 8] k) => (float[2, 3, 4, 8] y) {
        ["/net/layers.0/attn/Attention"] a = Attention <scale = 0.5> (q, k, k)
        ["/net/layers.0/attn/Transpose"] b = Transpose <perm = [0, 2, 1, 3]> (a)
        ["/net/layers.0/act/Exp"] y = Exp (b)
      })";
  const Program program = Build(graph, Eager()).program;
  size_t deaths = 0;
  for (const AtenCall& call : program.calls) {
    for (const NameId dead : call.dies) {
      if (program.values[Index(dead)].name != "a.view") continue;
      if (program.values[Index(dead)].type.dims != Dims{2, 4, 3, 8}) continue;
      CHECK(call.op == "permute");
      ++deaths;
    }
  }
  CHECK(deaths == 2);
}

TEST_CASE("it is said what was written out") {
  const Program program = Build(TwoLayers(4, "scale = 0.5"), Eager()).program;
  REQUIRE(program.assumptions.size() == 1);
  CHECK(program.assumptions[0] == "2 attentions run as transformers' eager attention does");
  CHECK(Build(kTwoLayers, Eager()).program.assumptions[0] ==
        "the file holds no scaled_dot_product_attention to be written out");
}

}  // namespace
}  // namespace onnxfit::eager_attention_test

// Files without weights that list the module's parameters among their inputs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/onnx/loader.h"

namespace onnxfit::bare_parameters_test {
namespace {

// "x | conv1.weight conv1.bias": inputs, and initializers.
std::string Parted(std::string_view inputs, std::string_view nodes = "y = Relu(x)") {
  const Graph graph = ParseGraph(fmt::format("g ({}) => (float y) {{ {} }}", inputs, nodes));
  std::string text;
  for (const ValueId input : graph.inputs) {
    text += fmt::format("{} ", graph.values[static_cast<size_t>(input)].name);
  }
  text += "|";
  for (const Initializer& stored : graph.initializers) {
    text += fmt::format(" {}", graph.values[static_cast<size_t>(stored.value)].name);
  }
  return text;
}

TEST_CASE("parameters are those that are called so, and what is behind them") {
  struct Row {
    std::string_view inputs;
    std::string_view parted;
  };
  const Row rows[] = {
      {R"(float[2, 3] x, float[4, 3] "fc.weight", float[4] "fc.bias")", "x | fc.weight fc.bias"},
      // Constant folding's names come behind.
      {R"(float[N, 3] x, float[4, 3] "fc.weight", float[4, 3] "onnx::Conv_1")",
       "x | fc.weight onnx::Conv_1"},
      {"float[2, 3] x, float[4, 3] weight_ih_l0, float[4] bias_ih_l0",
       "x | weight_ih_l0 bias_ih_l0"},
      {R"(float[2, 3] x, float[4] "bn.running_mean", int64 "bn.num_batches_tracked")",
       "x | bn.running_mean bn.num_batches_tracked"},
      // A class token is for all samples; another input has the batch.
      {R"(float[2, 3] x, float[1, 1, 3] cls_token, float[3] "ln.weight")",
       "x | cls_token ln.weight"},
      {R"(float[2, 3] x, float[2, 3] z, float[3] "ln.weight")", "x z | ln.weight"},
      {R"(float[N, 3] x, float[1, P, 3] past, float[3] "ln.weight")", "x past | ln.weight"},
      // None: an input that is called as one and comes first, or before what is free.
      {R"(float[2, 3] "fc.weight", float[2, 3] x)", "fc.weight x |"},
      {R"(float[2, 3] x, float[4, 3] "fc.weight", float[N, 3] z)", "x fc.weight z |"},
      {"float[2, 3] x, float[2, 3] weighted, float[2, 3] unbiased", "x weighted unbiased |"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.inputs);
    CHECK(Parted(row.inputs) == row.parted);
  }
}

TEST_CASE("a file with weights keeps its inputs") {
  const Graph graph = ParseGraph(
      R"(g (float[2, 3] x, float[3] "ln.weight") => (float y) <float[3] w = {1, 2, 3}>
         { y = Add(x, w) })");
  CHECK(graph.inputs.size() == 2);
  CHECK(graph.warnings.empty());
}

TEST_CASE("it is said") {
  const Graph graph = ParseGraph(
      R"(g (float[2, 3] x, float[4, 3] "fc.weight", float[4] "fc.bias") => (float y) {
        y = Gemm<transB = 1>(x, "fc.weight", "fc.bias") })");
  REQUIRE(graph.warnings.size() == 1);
  CHECK(graph.warnings[0].code == "OF120");
  CHECK(graph.warnings[0].text ==
        "the file holds no weights, as export_params=False has it: the last 2 inputs, from "
        "'fc.weight' on, are taken for the model's parameters");
}

}  // namespace
}  // namespace onnxfit::bare_parameters_test

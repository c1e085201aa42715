#include "estimator/program/call_operands.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/onnx/loader.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::call_operands_test {
namespace {

const Dims kAbsent = {-1};

bool Fits(std::string_view op, const std::vector<Dims>& inputs, const Dims& output,
          const std::vector<int64_t>& ints = {}) {
  CallOperands call = {.op = op, .outputs = {&output}, .ints = ints};
  for (const Dims& dims : inputs) call.inputs.push_back(dims == kAbsent ? nullptr : &dims);
  return FitsRule(call);
}

TEST_CASE("what calls take") {
  CHECK(Fits("linear", {{8, 4}, {5, 4}, {5}}, {8, 5}));
  CHECK(Fits("linear", {{8, 4}, {4, 5}}, {8, 5}));  // as some exporters store it
  CHECK(!Fits("linear", {{8, 4}, {5}}, {8, 5}));
  CHECK(!Fits("linear", {{8, 4}, {7, 6}}, {8, 5}));
  CHECK(!Fits("linear", {{8, 4}}, {8, 5}));
  CHECK(!Fits("linear", {{}, {5, 4}}, {5}));

  CHECK(Fits("matmul", {{2, 8, 4}, {4, 5}}, {2, 8, 5}));
  CHECK(!Fits("matmul", {{2, 8, 4}, {3, 5}}, {2, 8, 5}));
  CHECK(!Fits("matmul", {{2, 8, 4}, {}}, {2, 8, 5}));

  CHECK(Fits("add", {{8, 1, 4}, {3, 1}}, {8, 3, 4}));
  CHECK(!Fits("add", {{8, 1, 4}}, {4}));
  CHECK(!Fits("where", {{4}, {4}, kAbsent}, {4}));

  CHECK(Fits("permute", {{2, 3}}, {3, 2}, {1, 0}));
  CHECK(!Fits("permute", {{2, 3}}, {3, 2}, {1, 1}));
  CHECK(!Fits("permute", {{2, 3}}, {3, 2}, {1, -9}));
  CHECK(!Fits("permute", {{2, 3}}, {3, 2}));
  CHECK(Fits("select", {{2, 3}}, {3}, {0}));
  CHECK(!Fits("select", {{2, 3}}, {3}, {2}));
  CHECK(!Fits("select", {{2, 3}}, {3, 2, 2, 2}, {0}));
  CHECK(!Fits("expand", {{2, 3}}, {3}));
  CHECK(!Fits("embedding", {{9}, {4}}, {4}));
  CHECK(!Fits("index", {{9, 2}, kAbsent}, {4, 2}));
  CHECK(!Fits("cat", {{2, 3}, {3}}, {4, 3}));
  CHECK(Fits("constant", {}, {4}));
  CHECK(!Fits("gelu", {}, {4}));
  CHECK(!Fits("softmax", {kAbsent}, {4}));
}

TEST_CASE("what attention takes") {
  const Dims q = {2, 4, 6, 8};
  const Dims kv = {2, 2, 5, 8};
  CHECK(Fits("scaled_dot_product_attention", {q, kv, kv}, q, {0, 0}));
  CHECK(Fits("scaled_dot_product_attention", {q, kv, kv, {6, 5}}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {q, kv, kv, {6, 6}}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {q, kv, kv, {}}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {q, {2, 0, 5, 8}, kv}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {q, {2, 3, 5, 8}, kv}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {q, kv}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {q, {2, 5, 8}, kv}, q, {0, 0}));
  CHECK(!Fits("scaled_dot_product_attention", {{6}, {6}, {6}}, {6}, {0, 0}));
}

Program Lowered(std::string_view text, const std::vector<std::string>& fx) {
  Graph graph = ParseGraph(text);
  for (size_t i = 0; i < fx.size(); ++i) Say(graph, static_cast<NodeId>(i), fx[i]);
  return Build(graph, {}).program;
}

TEST_CASE("where metadata names a call that does not fit, nodes run as they are written") {
  const std::string linear = FxText("y", "linear.default", "%x, %fc.bias");
  const Program program = Lowered(R"(n (float[2, 3, 4] x) => (float[2, 3, 5] y)
      < float[4, 5] "fc.weight" = ["location": "none"], float[5] "fc.bias" = ["location": "none"] > {
        h = MatMul (x, "fc.weight") y = Add ("fc.bias", h) })",
                                  {linear, linear});
  CHECK(std::ranges::none_of(program.calls, [](const AtenCall& call) { return call.op == "?"; }));
}

TEST_CASE("a list of one index is a tensor, as x[:, [1]] has it") {
  const Program program = Lowered(R"(n (float[2, 3, 4] x) => (float[2, 1, 5] y)
      < float[4, 5] w = ["location": "none"], int64[1] i = {1} > {
        h = Gather <axis = 1> (x, i) y = MatMul (h, w) })",
                                  {FxText("h", "index.Tensor", "%x, [None, %i]")});
  const auto index = std::ranges::find(program.calls, "index", &AtenCall::op);
  REQUIRE(index != program.calls.end());
  CHECK(index->inputs.size() == 2);
  CHECK(index->inputs[1] != kNoName);
}

TEST_CASE("a call that does not fit its rule keeps all, and says so") {
  const Program program = Build(R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
      n (float[2, 3, 8] x, float[2, 3, 6] k) => (float[2, 3, 8] y)
      < float[8, 8] w = ["location": "none"] > {
        h = MatMul (x, w)
        y = com.microsoft.MultiHeadAttention <num_heads = 2> (h, k, k) })",
                                {})
                              .program;
  CHECK(program.calls.back().where == "loss");
  CHECK(std::ranges::find(program.calls, "?", &AtenCall::op) != program.calls.end());
  const Warning expected = {
      warning::kUnknownOperator,
      "scaled_dot_product_attention at com.microsoft.MultiHeadAttention #1 was given "
      "float32[2, 2, 3, 4], float32[2, 2, 3, 3], float32[2, 2, 3, 3], none, which PyTorch's does "
      "not take: all its inputs and outputs are kept until backward, which may be too much or too "
      "little"};
  CHECK(std::ranges::find(program.warnings, expected) != program.warnings.end());
}

}  // namespace
}  // namespace onnxfit::call_operands_test

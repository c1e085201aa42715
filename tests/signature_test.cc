#include "estimator/graph/signature.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/graph/loader.h"
#include "tests/trace_helpers.h"

namespace onnxfit::signature_test {
namespace {

std::string Model(std::string_view nodes, int opset) {
  return fmt::format(
      "<ir_version: 8, opset_import: [\"\" : {}, \"my\" : 1]> "
      "g (float[2, 4] x) => (float[2, 4] y) < float[4, 4] w = [\"location\": \"none\"] > {{ {} }}",
      opset, nodes);
}

std::string ErrorOf(std::string_view nodes, int opset = 17) {
  try {
    ParseGraph(Model(nodes, opset));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a node has the inputs and outputs that its operator takes") {
  struct Row {
    std::string_view nodes;
    std::string_view error;
  };
  const Row rows[] = {
      {"y = MatMul (x, w)", ""},
      {"y = MatMul (x)", "node 'MatMul #0': expected 2 inputs at least, input 1 is missing"},
      {"[m] y = MatMul (, w)", "node 'm' (MatMul): expected 2 inputs at least, input 0 is missing"},
      {"y = MatMul (x, w, x)", "node 'MatMul #0': expected 2 inputs at most, found 3"},
      {"y, z = Relu (x)", "node 'Relu #0': expected 1 outputs at most, found 2"},
      {"y = Concat <axis = 0> ()",
       "node 'Concat #0': expected 1 inputs at least, input 0 is missing"},
      {"y = Sum (x, x, x, x, x)", ""},
      {"y = Clip (x, , )", ""},
      {"y = ReduceMax (x, w)", ""},  // from opset 18 on
      {"y = Loop <body = b (int64 i, bool c, float v) => (bool c, float v2) { v2 = Neg (v) }> "
       "(, , x)",
       ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CHECK(ErrorOf(row.nodes) == (row.error.empty() ? "" : fmt::format("<text>: {}", row.error)));
  }
}

TEST_CASE("an operator that is newer than the opset takes what it takes later") {
  CHECK(ErrorOf("y = Attention (x, x)", 14) ==
        "<text>: node 'Attention #0': expected 3 inputs at least, input 2 is missing");
  CHECK(ErrorOf("y = LayerNormalization (x, w)", 13).empty());
}

TEST_CASE("another domain's operator is none of ONNX's, whatever its name") {
  for (const char* nodes :
       {"h = my.Add (x) y = MatMul (h, w)", "h = my.MatMul (x) y = MatMul (h, w)"}) {
    CAPTURE(nodes);
    CHECK(ErrorOf(nodes).empty());
    CHECK(Build(Model(nodes, 17), {}).program.loss != kNoName);
  }
  const Program program = Build(Model("h = my.Relu (x) y = MatMul (h, w)", 17), {}).program;
  CHECK(program.calls[0].op == "?");
}

TEST_CASE("a node whose results are all left out is none") {
  const Graph graph = ParseGraph(Model("\"\" = Relu (x) y = MatMul (x, w)", 17));
  CHECK(graph.nodes.size() == 1);
}

}  // namespace
}  // namespace onnxfit::signature_test

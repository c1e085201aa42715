#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/schemas.h"
#include "estimator/onnx/shapes.h"
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

// Of what BindShapes says.
std::string KindError(std::string_view inputs, std::string_view nodes, int opset = 17) {
  try {
    BindShapes(ParseGraph(fmt::format("<ir_version: 8, opset_import: [\"\" : {}, \"my\" : 1]> "
                                      "g ({}) => (float[2] y) {{ {} }}",
                                      opset, inputs, nodes)),
               {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("an input is of a kind that its operator takes") {
  struct Row {
    std::string_view inputs;
    std::string_view nodes;
    std::string_view error;
  };
  const Row rows[] = {
      {"string[1, 2, 4] x, string[2, 2, 3] w", "y = Conv (x, w)",
       "node 'Conv #0': expected floats as input 0, found string"},
      {"float[1, 2, 4] x, int64[2, 2, 3] w", "y = Conv (x, w)",
       "node 'Conv #0': expected floats as input 1, found int64"},
      {"float[4] x, float[2] i", "[pick] y = Gather (x, i)",
       "node 'pick' (Gather): expected integers as input 1, found float32"},
      {"float[4] x, string[4] z", "y = Add (x, z)",
       "node 'Add #0': expected floats or integers as input 1, found string"},
      {"float[4] x, string[4] z", "y = Sum (x, x, z)",
       "node 'Sum #0': expected floats as input 2, found string"},
      {"float[4] x, float c", "y = Where (c, x, x)",
       "node 'Where #0': expected bools as input 0, found float32"},
      {"complex64[4] x", "y = Relu (x)",
       "node 'Relu #0': expected floats or integers as input 0, found complex64"},
      {"float[4] x", "l = SplitToSequence (x) y = Add (x, l)",
       "node 'Add #1': expected floats or integers as input 1, found a list"},
      {"float[4] x, int64 i", "y = SequenceAt (x, i)",
       "node 'SequenceAt #0': expected lists as input 0, found float32"},
      {"float[4] x, string[4] z", "y = LayerNormalization (x, z)",  // newer than the opset
       "node 'LayerNormalization #0': expected floats as input 1, found string"},
      {"string[4] x, string[4] z", "y = Concat <axis = 0> (x, z)", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CHECK(KindError(row.inputs, row.nodes, 16) ==
          (row.error.empty() ? "" : fmt::format("<text>: {}", row.error)));
  }
}

TEST_CASE("what exporters write beside ONNX's lists of types is taken") {
  struct Row {
    std::string_view inputs;
    std::string_view nodes;
    int opset = 0;
  };
  const Row rows[] = {
      {"bfloat16[1, 2, 4] x, bfloat16[2, 2, 3] w", "y = Conv (x, w)", 11},
      {"int32[4] x", "y = Relu (x)", 11},  // from opset 14 on
      {"bool[4] x, int64 a", "y = CumSum (x, a)", 17},
      {"float[4] x, bool[4] i", "y = Gather (x, i)", 17},
      {"float[4] x, uint8[4] c", "y = Where (c, x, x)", 11},
      {"int32[4] x", "y = Exp (x)", 17},
      {"bool[4] x", "y = Sum (x, x)", 17},
      {"float[4] x, float[2] z", "i = my.Best (z) y = Gather (x, i)", 17},  // guessed: like z
      {"float[4] x, string[2] z", "y = my.Conv (x, z)", 17},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CHECK(KindError(row.inputs, row.nodes, row.opset).empty());
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

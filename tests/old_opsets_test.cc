// Files of opset 6 and older, read as opset 7.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::old_opsets_test {
namespace {

// A line for each node, "y = Add(x, b)", then the type of the last one's first result.
std::string NodesText(int opset, std::string_view inputs, std::string_view nodes) {
  const Graph graph = ParseGraph(fmt::format(
      "<ir_version: 3, opset_import: [\"\" : {}]> g ({}) => (float y) "
      "<float[3] b = {{1, 2, 3}}, float[3, 3, 1, 1] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, "
      "int64[1] twice = {{2}}, int64[1] one = {{1}}, int64[2] halves = {{1, 2}}> {{ {} }}",
      opset, inputs, nodes));
  const Shapes shapes = BindShapes(graph, {});
  const auto name = [&](ValueId id) { return graph.values[static_cast<size_t>(id)].name; };
  std::string text;
  for (const Node& node : graph.nodes) {
    std::string read;
    for (const ValueId input : node.inputs) read += fmt::format(" {}", name(input));
    text += fmt::format("{}{} ;", node.op_type, read) + " ";
  }
  const ValueId last = graph.nodes.back().outputs[0];
  return text + ToString(shapes.types[static_cast<size_t>(last)].tensor);
}

TEST_CASE("what changed up to opset 7 is written as opset 7 has it") {
  struct Row {
    int opset;
    std::string_view nodes;
    std::string_view written;
  };
  const Row rows[] = {
      // The second operand began at an axis of the first.
      {6, "y = Add<broadcast = 1, axis = 1>(x, b)",
       "Unsqueeze b ; Add x b_opset7 ; float32[2, 3, 4, 5]"},
      {6, "y = Mul<broadcast = 1, axis = -3>(x, b)",
       "Unsqueeze b ; Mul x b_opset7 ; float32[2, 3, 4, 5]"},
      {6, "f = Flatten(x) c = Flatten(x) y = Sub<broadcast = 1, axis = 0>(f, c)",
       "Flatten x ; Flatten x ; Sub f c ; float32[2, 60]"},
      {1,
       "r = Relu<consumed_inputs = [0]>(x) s = ReduceMean<axes = [2, 3], keepdims = 0>(r) "
       "y = Div<broadcast = 1, axis = 1>(s, b)",
       "Relu x ; ReduceMean r ; Div s b ; float32[2, 3]"},
      // A convolution's bias, as torch.onnx wrote it.
      {6, "c = Conv(x, w) y = Add<broadcast = 1, axis = 1>(c, b)",
       "Conv x w b ; float32[2, 3, 4, 5]"},
      {6, "c = Conv(x, w) a = Add<broadcast = 1, axis = 1>(c, b) y = Add(a, c)",
       "Conv x w ; Unsqueeze b ; Add c b_opset7 ; Add a c ; float32[2, 3, 4, 5]"},
      {1, "y = Reshape<shape = [2, -1]>(x)", "Constant ; Reshape x y_opset7 ; float32[2, 60]"},
      {3, "y = Concat(x, x)", "Concat x x ; float32[2, 6, 4, 5]"},
      {5, "y = Cast<to = \"FLOAT16\">(x)", "Cast x ; float16[2, 3, 4, 5]"},
      {1, "y = Pad<paddings = [0, 0, 1, 1, 0, 0, 1, 1]>(x)", "Pad x ; float32[2, 3, 6, 7]"},
      {1, "y, z = Split<axis = 1>(x, halves)", "Split x ; float32[2, 1, 4, 5]"},
      {1, "y = Tile(x, twice, one)", "Constant ; Tile x y_opset7 ; float32[2, 6, 4, 5]"},
      {1, "y = Upsample<height_scale = 2.0, width_scale = 3.0>(x)",
       "Upsample x ; float32[2, 3, 8, 15]"},
      {6, "y = Dropout<is_test = 1>(x)", "Dropout x ; float32[2, 3, 4, 5]"},
      {6, "f = Flatten(x) v = Transpose(f) y = Gemm<broadcast = 1>(f, v, one)",
       "Flatten x ; Transpose f ; Gemm f v one ; float32[2, 2]"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    CHECK(NodesText(row.opset, "float[2, 3, 4, 5] x", row.nodes) == row.written);
  }
}

TEST_CASE("what is no node of an old opset is refused as in a new one") {
  const auto load = [](std::string_view nodes) {
    return NodesText(6, "float[2, 3, 4, 5] x", nodes);
  };
  CHECK_THROWS_WITH(load("= Conv(x, w) y = Add<broadcast = 1, axis = 1>(x, b)"),
                    "<text>: node 'Conv #0': expected an output, found none");
  CHECK_THROWS_WITH(load("= Reshape<shape = [2, -1]>(x) y = Relu(x)"),
                    "<text>: node 'Reshape #0': expected 2 inputs at least, input 1 is missing");
  // An axis out of reach, which nothing is put behind.
  CHECK_THROWS_AS(load("y = Add<broadcast = 1, axis = -4000000000000000000>(x, b)"), Error);
}

TEST_CASE("a file from before opsets were written is of the first") {
  const Graph graph = ParseGraph(
      "<ir_version: 2> g (float[2, 3] x) => (float y) { y = Reshape<shape = [3, 2]>(x) }");
  CHECK(graph.opsets[0].version == 7);
  REQUIRE(graph.notes.size() == 1);
  CHECK(graph.notes[0] == "read opset 1 as opset 7");
}

}  // namespace
}  // namespace onnxfit::old_opsets_test

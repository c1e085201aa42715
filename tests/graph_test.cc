#include "estimator/onnx/graph.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/onnx/loader.h"
#include "tests/onnx_bytes.h"
#include "tests/temp_folder.h"

namespace onnxfit::graph_test {
namespace {

std::string ErrorOf(std::string_view text) {
  try {
    ParseGraph(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a graph says what the file says") {
  const Graph graph = ParseGraph(R"(
    mlp (float[N, 4] x) => (float[N, 2] y)
        <float[4, 8] w1 = {}, float[8, 2] w2 = {1}, int64[2] axes = {0, 1}> {
      h = MatMul(x, w1)
      a, = LeakyRelu <alpha = 0.5> (h)
      b = com.example.Fold <rates = [0.25, 2.0], mode = "up", dims = [1, -2],
                            names = ["p", "q"], value = float[2] {1, 2}> (a, "", axes)
      [last] y = MatMul(b, w2)
    })");
  // Begins with a newline, so that the lines line up.
  CHECK("\n" + ToString(graph) == R"(
input x
initializer w1 float32[4, 8]
initializer w2 float32[8, 2]
initializer axes int64[2]
h = MatMul(x, w1)
a = LeakyRelu(h) <alpha=0.5>
b = com.example.Fold(a, , axes) <rates=[0.25, 2], mode=up, dims=[1, -2], names=[p, q], value>
y = MatMul(b, w2)
output y
)");
  CHECK(graph.path == "<text>");
  REQUIRE(graph.opsets.size() == 1);
  CHECK(graph.opsets[0].version == 17);
  CHECK(DisplayName(graph, 0) == "MatMul #0");
  CHECK(DisplayName(graph, 3) == "last");
}

TEST_CASE("attributes are found by name and kind") {
  const Graph graph = ParseGraph(R"(
    g (float[4] x) => (float[4] y) {
      y = Op <i = 3, f = 0.5, s = "text"> (x)
    })");
  const Node& node = graph.nodes[0];
  CHECK(IntAttribute(node, "i", 7) == 3);
  CHECK(IntAttribute(node, "f", 7) == 7);
  CHECK(IntAttribute(node, "none", 7) == 7);
  CHECK(FloatAttribute(node, "f", 7) == 0.5);
  CHECK(FloatAttribute(node, "i", 7) == 7);
  CHECK(FindAttribute(node, "s") != nullptr);
  CHECK(FindAttribute(node, "none") == nullptr);
}

TEST_CASE("nodes keep the file's order where it is valid, and are sorted where not") {
  struct Row {
    const char* nodes;
    const char* sorted;
  };
  const Row rows[] = {
      {"a = A(x) b = B(x) y = C(b, a)", "a b y "},
      {"b = B(x) a = A(x) y = C(b, a)", "b a y "},
      {"y = C(b, a) b = B(x) a = A(x)", "b a y "},
      {"y = C(b) z = D(x) b = B(a) a = A(x)", "z a b y "},
      // What a body reads counts: b comes before the If.
      {"y = If <then_branch = t () => (float[4] o) { o = Relu(b) },"
       " else_branch = e () => (float[4] o) { o = Relu(x) }> (c) b = B(x) c = C(x)",
       "b c y "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.nodes);
    const Graph graph =
        ParseGraph(std::string("g (float[4] x) => (float[4] y) {") + row.nodes + "}");
    std::string order;
    for (const Node& node : graph.nodes) {
      const Value& value = graph.values[static_cast<size_t>(node.outputs[0])];
      order += std::string(value.name) + " ";
      CHECK(&graph.nodes[static_cast<size_t>(value.producer)] == &node);
    }
    CHECK(order == row.sorted);
  }
}

TEST_CASE("values know who makes them and what they are for") {
  const Graph graph =
      ParseGraph("g (float[4] x) => (float[4] y) <float[1] w = {1}> {y = Add(x, w)}");
  std::string text;
  for (const Value& value : graph.values) {
    text += std::string(value.name) + (value.is_input ? " input" : "") +
            (value.is_output ? " output" : "") + (value.producer != kNoNode ? " made" : "") +
            (value.initializer >= 0 ? " initializer" : "") + "\n";
  }
  CHECK(text == "w initializer\nx input\ny output made\n");
}

TEST_CASE("an input with an initializer is no input") {
  const Graph graph =
      ParseGraph("g (float[4] x, float[1] w = {1}) => (float[4] y) {y = Add(x, w)}");
  CHECK(ToString(graph) == "input x\ninitializer w float32[1]\ny = Add(x, w)\noutput y\n");
}

TEST_CASE("metadata of the model, the graph and the nodes is kept") {
  const auto entry = [](uint32_t field, std::string_view key, std::string_view value) {
    return bytes::Bytes(field, bytes::Bytes(1, key) + bytes::Bytes(2, value));
  };
  const TempFolder folder;
  const std::string model =
      bytes::Model(bytes::Node("Relu", {"x"}, {"y"}, entry(9, "pkg.torch.onnx.fx_node", "%relu")) +
                   bytes::Input("x") + bytes::Output("y") + entry(16, "signature", "graph's"));
  const Graph graph = LoadGraph(folder.Write("m.onnx", model + entry(14, "signature", "model's")));
  CHECK(FindMetadata(graph.metadata, "signature") == "model's");
  CHECK(graph.metadata.size() == 2);
  CHECK(FindMetadata(graph.nodes[0].metadata, "pkg.torch.onnx.fx_node") == "%relu");
  CHECK(FindMetadata(graph.nodes[0].metadata, "none") == "");
}

TEST_CASE("functions are inlined, within one another and in bodies") {
  const Graph graph = ParseGraph(R"(
    <ir_version: 8, opset_import: ["" : 17, "local" : 1]>
    g (float[4] x, bool c) => (float[4] y, float[4] z) {
      y = local.Twice(x)
      z = If (c) <then_branch = t () => (float[4] o) { o = local.Once(y) },
                  else_branch = e () => (float[4] o) { o = Relu(x) }>
    }
    <domain: "local", opset_import: ["" : 17, "local" : 1]>
    Twice (a) => (b) {
      m = local.Once(a)
      b = local.Once(m)
    }
    <domain: "local", opset_import: ["" : 17]>
    Once (a) => (b) { b = Relu(a) }
  )");
  CHECK("\n" + ToString(graph) == R"(
input x
input c
m__1 = Relu(x)
y = Relu(m__1)
z = If(c) <then_branch, else_branch>
output y
output z
)");
  REQUIRE(graph.notes.size() == 1);
  CHECK(graph.notes[0] == "inlined 2 functions");
}

TEST_CASE("ONNX's own domain has two names, for functions, too") {
  const Graph graph = ParseGraph(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) { y = Twice(x) }
    <domain: "ai.onnx", opset_import: ["" : 17]>
    Twice (a) => (b) { m = Relu(a) b = Neg(m) }
  )");
  CHECK(graph.nodes.size() == 2);
  CHECK(ErrorOf(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[4] y) { [call] y = Twice(x, x) }
    <domain: "ai.onnx", opset_import: ["" : 17]>
    Twice (a) => (b) { b = Neg(a) })") ==
        "<text>: node 'call': function 'Twice' takes at most 1 inputs, found 2");
}

TEST_CASE("graphs that cannot be run are refused, with the place and the reason") {
  struct Row {
    const char* text;
    const char* error;
  };
  const Row rows[] = {
      {"g (float[4] x) => (float[4] y) { [add] y = Add(x, z) [relu] z = Relu(y) }",
       "<text>: node 'add': a graph without cycles was expected, found 'add' -> 'relu' -> 'add'"},
      {"g (float[4] x) => (float[4] y) { y = Add(x, y) }",
       "<text>: node 'Add #0': a graph without cycles was expected, found 'Add #0' -> 'Add #0'"},
      {"g (float[4] image) => (float[4] y) { [relu] y = Relu(imagee) }",
       "<text>: node 'relu': input 'imagee' should be made by a node, an input or an initializer, "
       "found none of that name (try: 'image')"},
      {"g (float[4] image) => (float[4] y) { y = Relu(some_other_name) }",
       "<text>: node 'Relu #0': input 'some_other_name' should be made by a node, an input or an "
       "initializer, found none of that name"},
      {"g (bool c) => (float[4] y) { [if] y = If <then_branch = t () => (float[4] o) "
       "{ o = Relu(nothing_like_it) }> (c) }",
       "<text>: node 'if': a sub-graph's input 'nothing_like_it' should be made by a node, an "
       "input "
       "or an initializer, found none of that name"},
      // What one branch makes is not there in the other.
      {"g (bool c) => (float[4] y) { [if] y = If <"
       "then_branch = t () => (float[4] inner) { inner = Relu(c) }, "
       "else_branch = e () => (float[4] o) { o = Relu(inner) }> (c) }",
       "<text>: node 'if': a sub-graph's input 'inner' should be made by a node, an input or an "
       "initializer, found none of that name"},
      {"g (float[4] x) => (float[4] logits) { logit = Relu(x) }",
       "<text>: graph: output 'logits' should be made by a node, an input or an initializer, found "
       "none of that name (try: 'logit')"},
      {"g (float[4] x) => (float[4] y) { [a] y = Relu(x) [b] y = Neg(x) }",
       "<text>: node 'b': output 'y' should have one producer, found node 'a' too"},
      {"g (float[4] x) => (float[4] x) { [a] x = Relu(x) }",
       "<text>: node 'a': output 'x' should have one producer, found a graph input too"},
      {"g (float[4] x) => (float[4] w) <float[1] w = {1}> { [a] w = Relu(x) }",
       "<text>: node 'a': output 'w' should have one producer, found an initializer too"},
      {"g (float[4] x) => (float[4] y) <float[1] w = {1}, float[1] w = {2}> { y = Relu(x) }",
       "<text>: initializer 'w': one of this name was expected, found two"},
      {"g (float[4] x, float[4] x) => (float[4] y) { y = Relu(x) }",
       "<text>: input 'x': one of this name was expected, found two"},
      {"g (float[4] x) => (float[4] x) { }", "<text>: a model with nodes was expected, found none"},
      {"g (float[4] x) => () { y = Relu(x) }",
       "<text>: a model with outputs was expected, found none"},
      {"<ir_version: 8, opset_import: [\"\" : 99]> g (float[4] x) => (float[4] y) { y = Relu(x) }",
       "<text>: opset_import: an opset from 1 to 28 was expected, found 99 (try: export it again "
       "with opset_version=28)"},
      {"<ir_version: 3, opset_import: [\"\" : 0]> g (float[4] x) => (float[4] y) { y = Relu(x) }",
       "<text>: opset_import: an opset from 1 to 28 was expected, found 0 (try: export it again "
       "with opset_version=17)"},
      {"<ir_version: 8> g (float[4] x) => (float[4] y) { y = Relu(x) }",
       "<text>: opset_import: an opset from 1 to 28 was expected, found none"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ErrorOf(row.text) == row.error);
  }
}

TEST_CASE("functions that cannot be inlined are refused") {
  const auto error_of = [](const std::string& functions) {
    return ErrorOf(R"(<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
      g (float[4] x) => (float[4] y) { [call] y = l.F(x) })" +
                   functions);
  };
  const std::string head = "\n<domain: \"l\", opset_import: [\"\" : 17, \"l\" : 1]>\n";
  CHECK(error_of(head + "F (a) => (b) { b = l.G(a) }" + head + "G (a) => (b) { b = l.F(a) }") ==
        "<text>: function 'F': functions that do not call themselves were expected, found "
        "'F' -> 'G' -> 'F'");
  CHECK(error_of(head + "F (a) => (b) { b = Relu(a) }" + head + "F (a) => (b) { b = Neg(a) }") ==
        "<text>: function 'F': one definition was expected, found two");
  CHECK(error_of(head + "F () => (b) { b = Op() }") ==
        "<text>: node 'call': function 'F' takes at most 0 inputs, found 1");

  // Forty functions of two calls each are 2^40 nodes.
  std::string doubling = head + "F (a) => (b) { b = l.F0(a) }";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "l.F" + std::to_string(i + 1);
    doubling +=
        head + "F" + std::to_string(i) + " (a) => (b) { m = " + next + "(a) b = " + next + "(m) }";
  }
  CHECK(error_of(doubling) ==
        "<text>: functions: at most 65536 nodes and 100 calls inside one another were expected, "
        "found more");

  // A hundred and one that call one another, one node each.
  std::string tower;
  for (int i = 0; i < 101; ++i) {
    const std::string callee = i < 100 ? "l.F" + std::to_string(i) : "Relu";
    const std::string name = i == 0 ? "F" : "F" + std::to_string(i - 1);
    tower += head + name + " (a) => (b) { b = " + callee + "(a) }";
  }
  CHECK(error_of(tower) ==
        "<text>: functions: at most 65536 nodes and 100 calls inside one another were expected, "
        "found more");
}

TEST_CASE("functions of a large file may expand to more than those of a small one") {
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"l\" : 1]> g (float[4] x0) => (float[4] x3000) {";
  for (int i = 0; i < 3000; ++i) text += fmt::format("x{} = l.F(x{})\n", i + 1, i);
  text += "}\n<domain: \"l\", opset_import: [\"\" : 17]>\nF (a0) => (a30) {";
  for (int i = 0; i < 30; ++i) text += fmt::format("a{} = Relu(a{})\n", i + 1, i);
  CHECK(ParseGraph(text + "}").nodes.size() == 90000);
}

TEST_CASE("a function that is not there, or of another opset, stays an unknown operator") {
  const Graph missing = ParseGraph(R"(<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
    g (float[4] x) => (float[4] y) { y = l.F(x) })");
  CHECK(ToString(missing) == "input x\ny = l.F(x)\noutput y\n");
  const Graph other = ParseGraph(R"(<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
    g (float[4] x) => (float[4] y) { y = l.F(x) }
    <domain: "l", opset_import: ["" : 18]> F (a) => (b) { b = Relu(a) })");
  CHECK(ToString(other) == "input x\ny = l.F(x)\noutput y\n");
  CHECK(other.notes.back() ==
        "function 'F' is written for another opset than the model and was not inlined");
}

TEST_CASE("statistics of a batch norm that trains, which nobody reads, are left out") {
  const auto listed = [](const std::string& body) {
    return ToString(ParseGraph(R"(<ir_version: 7, opset_import: ["" : 13]>
      n (float[2, 3] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float[2, 3] z) {
        y, m1, v1, m2, v2 = BatchNormalization (x, s, b, m, v) )" +
                               body + "}"));
  };
  CHECK(listed("z = Relu (y)").find("\ny = BatchNormalization(x, s, b, m, v)\n") !=
        std::string::npos);
  CHECK(listed("z = Add (y, m1)").find("\ny, m1, v1, m2, v2 = BatchNormalization(") !=
        std::string::npos);
}

TEST_CASE("text that is not ONNX's is refused with line and column") {
  struct Row {
    std::string text;
    const char* error;
  };
  const Row rows[] = {
      {"g (float[4] x) => (float[4] y) {\n  y = Relu x)\n}",
       "<text>: line 2, column 12: Expected character ( not found, in: y = Relu x)"},
      {"", "<text>: an ONNX model was expected, found no text"},
      {"# nothing\n", "<text>: an ONNX model was expected, found no text"},
      {"g (float[4] x) => (float[4] y) { y = Relu(x) } more",
       "<text>: one model was expected, more text follows it"},
      {"g (float[99999999999999999999] x) => (float[4] y) { y = Relu(x) }",
       "<text>: numbers of 64 bits were expected, found a larger one"},
      {"g (" + std::string(101, '('),
       "<text>: line 1, column 103: at most 100 brackets inside one another were expected, found "
       "more"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(ErrorOf(row.text) == row.error);
  }
}

}  // namespace
}  // namespace onnxfit::graph_test

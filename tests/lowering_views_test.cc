#include <doctest/doctest.h>

#include <string>

#include "estimator/onnx/loader.h"
#include "estimator/recover/lowering.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lowering_views_test {
namespace {

// A Relu of what is flattened, and the two views behind it; with more outputs, and more nodes.
std::string Flattened(std::string_view outputs = "", std::string_view nodes = "") {
  return "net (float[2, 3, 4] x) => (float[2, 12] y" + std::string(outputs) + R"() {
  rows = Constant <value = int64[2] {2, 12}> ()
  whole = Constant <value = int64[3] {2, 3, 4}> ()
  f = Reshape (x, rows)
  r = Relu (f)
  b = Reshape (r, whole)
  v = Reshape (b, rows)
  y = Sigmoid (v)
)" + std::string(nodes) +
         "}";
}

std::string Trace(std::string_view line) {
  return "File \"net.py\", line 7, in forward\n    " + std::string(line);
}

// The calls of a forward whose Relu and the two views behind it are of `line`.
std::string Calls(std::string_view line, const std::string& text = Flattened()) {
  const std::string views[] = {FxText("b", "view.default", "%r, [2, 3, 4]"),
                               FxText("v", "view.default", "%b, [2, 12]")};
  const std::string trace = Trace(line);
  Graph graph = ParseGraph(text);
  Say(graph, 4, views[0]);
  Say(graph, 5, views[1]);
  for (const NodeId node : {3, 4, 5}) {
    graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
  }
  std::string calls;
  for (const AtenCall& call : Build(graph, {.mode = Mode::kEval}).program.calls) {
    calls += std::string(call.op) + " ";
  }
  return calls;
}

TEST_CASE("a view that was written over is not made anew") {
  CHECK(Calls("return F.relu(input, inplace=self.inplace)") == "view relu sigmoid ");
  CHECK(Calls("x.relu_()") == "view relu sigmoid ");
}

TEST_CASE("views that a line makes are calls") {
  CHECK(Calls("x = F.relu(x)") == "view relu view view sigmoid ");
  CHECK(Calls("x = x.relu_().view(2, 3, 4).view(2, 12)") == "view relu view view sigmoid ");
}

TEST_CASE("a base that others read is a call") {
  const std::string read = Flattened(", float[2, 3, 4] z", "z = Sigmoid (b)");
  CHECK(Calls("x.relu_()", read) == "view relu view view sigmoid sigmoid ");
}

TEST_CASE("a row of a table is a view where torch.export says so") {
  const auto op = [](const std::string& target) {
    const std::string call = FxText("y", target, "%w, 0, 0");
    Graph graph = ParseGraph(R"(n (float[4] x) => (float[4] z)
      < float[3, 4] w = ["location": "none"] > {
        i = Constant <value = int64 {0}> () y = Gather (w, i) z = Add (x, y)
      })");
    Say(graph, 1, call);
    return std::string(Build(graph, {}).program.calls[0].op);
  };
  CHECK(op("select.int") == "select");
  CHECK(op("embedding.default") != "select");
}

TEST_CASE("a row of a parameter that is no table is a view") {
  const Program program = Build(R"(n (float[4] x) => (float[3, 4] z)
      < float[2, 3, 4] w = ["location": "none"] > {
        i = Constant <value = int64 {0}> () y = Gather (w, i) z = Add (x, y)
      })",
                                {})
                              .program;
  CHECK(program.calls[0].op == "select");
}

TEST_CASE("a list of places becomes a tensor wherever TorchScript's file reads it") {
  const Program program = Build(R"(n (float[2, 3] x) => (float[2, 1] z) {
        i = Constant <value = int64[1] {1}> () ["/a/Gather"] a = Gather <axis = 1> (x, i)
        ["/b/Gather"] b = Gather <axis = 1> (x, i) ["/Add"] z = Add (a, b)
      })",
                                {.mode = Mode::kEval})
                              .program;
  CHECK(ToString(program) ==
        "\n%i = constant()  # /a/Gather\n%a = index(%x, %i)  # /a/Gather\n"
        "%i = constant()  # /b/Gather\n%b = index(%x, %i)  # /b/Gather\n"
        "%z = add(%a, %b)  # /Add\n");
}

TEST_CASE("an item of a parameter that is no table is a view") {
  const auto op = [](const char* dims, const char* made) {
    const Graph graph = ParseGraph("n (float[4] x) => (float" + std::string(made) + " z) < float" +
                                   dims + R"( w = ["location": "none"] > {
        i = Constant <value = int64 {0}> () y = Gather (w, i) z = Add (x, y) })");
    return std::string(Build(graph, {}).program.calls[0].op);
  };
  CHECK(op("[1, 3, 4]", "[3, 4]") == "select");
  CHECK(op("[3, 4]", "[4]") != "select");
}

}  // namespace
}  // namespace onnxfit::lowering_views_test

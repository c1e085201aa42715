// What exporters write for dimensions that they leave open.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"
#include "tests/onnx_bytes.h"

namespace onnxfit::unknown_dims_test {
namespace {

std::string FreeText(const Graph& graph) {
  return fmt::format("{}", fmt::join(FreeDims(graph), " "));
}

Graph WithInputs(const std::string& inputs) {
  return LoadGraphFrom(
      bytes::Model(bytes::Node("Relu", {"x"}, {"y"}) + inputs + bytes::Output("y")), "m.onnx",
      "m.onnx");
}

TEST_CASE("-1 is a free dimension, of inputs and of what the file stores") {
  const std::string model =
      bytes::Model(bytes::Node("NonZero", {"x"}, {"y"}) + bytes::Input("x", {-1, 3, -1, -1}) +
                   bytes::Value(12, "y", {4, -1}));
  const Graph graph = LoadGraphFrom(model, "m.onnx", "m.onnx");
  CHECK(FreeText(graph) == "x.0 x.2 x.3");
  const DimBinding binding = {.batch = {}, .dims = {{"y", 5}}, .inputs = {{"x", {2, 3, 8, 8}}}};
  const Shapes shapes = BindShapes(graph, binding);
  CHECK(ToString(shapes.types[static_cast<size_t>(graph.outputs[0])].tensor) == "int64[4, 5]");
}

TEST_CASE("a first dimension of 0 is free where no input has a batch, and no batch beside one") {
  struct Row {
    std::vector<int64_t> x;
    std::vector<int64_t> other;
    std::string free;
    int64_t batch;
  };
  const Row rows[] = {
      {{0, 3, 8}, {}, "x.0", 1},
      {{0, 3, 0}, {0, 5}, "x.0 x.2 other.0", 1},
      {{0, 3}, {4, 3}, "", 4},
      {{4, 0}, {}, "", 4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.free);
    std::string inputs = bytes::Input("x", row.x);
    if (!row.other.empty()) inputs += bytes::Input("other", row.other);
    const Graph graph = WithInputs(inputs);
    CHECK(FreeText(graph) == row.free);
    if (row.free.find("x.2") == std::string::npos) {
      CHECK(BindShapes(graph, {}).batch == row.batch);
    }
  }
}

TEST_CASE("'?' twice is two dimensions, once it is a name") {
  const auto free_of = [](const std::string& inputs) {
    return FreeText(ParseGraph("g (" + inputs + ") => (float y) { y = Relu(x) }"));
  };
  CHECK(free_of(R"(float[1, 3, "?", "?"] x)") == "x.2 x.3");
  CHECK(free_of(R"(float["None", 3, "None"] x, float["None"] z)") == "x.0 x.2 z.0");
  CHECK(free_of(R"(float["None", 3] x)") == "None");
  CHECK(free_of(R"(float[N, 3, N] x)") == "N");
}

TEST_CASE("a result that is stored under '?' has a size of its own") {
  const Graph graph = ParseGraph(R"(g (bool["?", 3] x) => (int64[2, "?"] y) { y = NonZero(x) })");
  const Shapes shapes = BindShapes(graph, {.batch = 4});
  CHECK(ToString(shapes.types[Index(graph.outputs[0])].tensor) == "int64[2, 12]");
  REQUIRE(shapes.warnings.size() == 1);
  CHECK(shapes.warnings[0].text.find("'y' 12") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::unknown_dims_test

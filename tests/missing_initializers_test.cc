#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/onnx/loader.h"

namespace onnxfit::missing_initializers_test {
namespace {

TEST_CASE("weights that a file names and does not hold have the types that it stores") {
  const Graph graph = ParseGraph(R"(
    g (float[N, 4] x) => (float[N, 2] y) <float[4, 2] w, float[2] b> { y = Gemm(x, w, b) })");
  CHECK(ToString(graph) == R"(input x
initializer w float32[4, 2]
initializer b float32[2]
y = Gemm(x, w, b)
output y
)");
  REQUIRE(graph.notes.size() == 1);
  CHECK(graph.notes[0] ==
        "2 tensors that the file names and does not hold have the types that it stores");
}

TEST_CASE("a file that stores no types either is refused, with the way out") {
  try {
    ParseGraph("g (float[N, 4] x) => (float[N, 2] y) { h = Gemm(x, w, b) y = Relu(h) }");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what())
              .starts_with("<text>: initializer 'w': the file names it and 1 others and holds "
                           "neither them nor their shapes, as include_initializers=False writes "
                           "it (try: program.save("));
  }
}

}  // namespace
}  // namespace onnxfit::missing_initializers_test

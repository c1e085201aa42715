#include <doctest/doctest.h>

#include "estimator/base/text.h"
#include "estimator/onnx/graph.h"
#include "estimator/onnx/loader.h"

namespace onnxfit::structure_test {
namespace {

TEST_CASE("what the lines of a graph are") {
  // python/tests/onnx_metadata_test.py has the same graph and digest.
  const Graph graph = ParseGraph(R"(
net (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
  h = MatMul(x, w)
  y = Clip(h, , w)
})");
  CHECK(StructureDigest(graph) == Digest("input x 1 N,3\n"
                                         "initializer w 1 3,2\n"
                                         "node  MatMul x,w h\n"
                                         "node  Clip h,,w y\n"
                                         "output y\n"));
  CHECK(StructureDigest(graph) == "e28372bf75c2acc3");
}

}  // namespace
}  // namespace onnxfit::structure_test

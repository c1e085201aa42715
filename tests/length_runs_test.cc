#include "estimator/fit/length_runs.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/onnx/loader.h"

namespace onnxfit::length_runs_test {
namespace {

// Attention's scores make a step's bytes grow with the square of S.
constexpr const char* kAttention = R"(net (float[N, S, 64] x) => (float[N, S, 64] y)
  < float[64, 64] w = ["location": "none"], float[64, 64] v = ["location": "none"] > {
    q = MatMul (x, w)
    k = Transpose <perm = [0, 2, 1]> (x)
    s = MatMul (q, k)
    p = Softmax <axis = -1> (s)
    o = MatMul (p, x)
    y = MatMul (o, v)
  })";

EstimateRequest RequestOf(int64_t batch) {
  EstimateRequest request = {.settings = {.in_place = InPlaceUse::kAlways, .dropout = 0.0}};
  request.binding.batch = batch;
  return request;
}

SeriesRun Alike(const LengthRuns& at, const StepShape& shape) {
  return at.Play({shape, shape, shape}, {std::numeric_limits<int64_t>::max()}, {});
}

// Where it is alone, a shape is predicted; among others it is read off between them.
void CheckReadOff(const Graph& file, const EstimateRequest& request,
                  const std::set<StepShape>& shapes) {
  const Study study(file);
  const std::string dim = DimOf(file, {});
  LengthRuns all(study, request, dim, *request.binding.batch);
  all.Add(shapes);
  for (const StepShape& shape : shapes) {
    CAPTURE(shape.batch);
    CAPTURE(shape.length);
    LengthRuns alone(study, request, dim, *request.binding.batch);
    alone.Add({shape});
    const SeriesRun expected = Alike(alone, shape);
    const SeriesRun found = Alike(all, shape);
    CHECK(found.peak_allocated_bytes == expected.peak_allocated_bytes);
    CHECK(found.peak_reserved_bytes == expected.peak_reserved_bytes);
  }
}

}  // namespace

TEST_CASE("what is read off between lengths is what each is alone") {
  std::set<StepShape> shapes;
  for (int64_t length = 1; length <= 700; length += 37) shapes.insert({8, length});
  for (int64_t length = 3; length <= 100; length += 31) shapes.insert({3, length});
  CheckReadOff(ParseGraph(kAttention), RequestOf(8), shapes);
}

TEST_CASE("which dimension varies") {
  const Graph one = ParseGraph(kAttention);
  CHECK(DimOf(one, {}) == "S");
  CHECK(DimOf(one, {.dim = "S"}) == "S");
  CHECK_THROWS_AS(DimOf(one, {.dim = "N"}), Error);
  const Graph two = ParseGraph("net (float[N, A, B] x) => (float[N, A, B] y) {y = Relu(x)}");
  CHECK_THROWS_AS(DimOf(two, {}), Error);
  CHECK(DimOf(two, {.dim = "B"}) == "B");
}

}  // namespace onnxfit::length_runs_test

// Calls that PyTorch ends with an error in some types.
#include <doctest/doctest.h>

#include "estimator/operators/dispatch.h"

namespace onnxfit::refused_calls_test {
namespace {

Program TransformOf(DType dtype) {
  Program program;
  program.values.push_back({"x", {{dtype, {2, 8}}, {8, 1}}});
  program.values.push_back({"y", {{DType::kComplex64, {2, 5}}, {5, 1}}});
  program.calls.push_back({.op = "_fft_r2c", .where = "rfft", .inputs = {0}, .outputs = {1}});
  return program;
}

// "RuntimeError: Unsupported dtype BFloat16" (torch 2.11.0).
TEST_CASE("a Fourier transform of bfloat16 is refused") {
  const Program refused = TransformOf(DType::kBFloat16);
  REQUIRE(FindRefused(refused) != nullptr);
  CHECK(FindRefused(refused)->where == "rfft");
  CHECK(FindRefused(TransformOf(DType::kFloat32)) == nullptr);
  CHECK(FindRefused(TransformOf(DType::kFloat16)) == nullptr);
}

TEST_CASE("what could be refused is known beforehand") {
  const Program program = TransformOf(DType::kFloat32);
  CHECK(HasNoKernelsIn(DType::kBFloat16, program));
  CHECK_FALSE(HasNoKernelsIn(DType::kFloat16, program));
}

}  // namespace
}  // namespace onnxfit::refused_calls_test

#include "estimator/oom/likely_shapes.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/bytes.h"

namespace onnxfit::likely_shapes_test {
namespace {

std::string Likely(int64_t low, int64_t high) {
  std::string text;
  for (const TensorType& type : LikelyShapes(low, high, 6)) text += ToString(type) + " ";
  return text;
}

TEST_CASE("a number of bytes leads back to shapes") {
  struct Row {
    int64_t low;
    int64_t high;
    const char* first;
  };
  const Row rows[] = {
      {86118400, 86118400, "float32[100, 64, 58, 58]"},          // a VGG in Theano
      {94 * kMiB + 1, 96 * kMiB, "float32[5000, 5000]"},         // a layer of 5000
      {94 * kMiB + 1, 96 * kMiB, "float32[128, 12, 128, 128]"},  // BERT's scores
      {int64_t{4096} * 11008 * 2, int64_t{4096} * 11008 * 2, "bfloat16[4096, 11008]"},  // Llama
  };
  for (const Row& row : rows) {
    const std::string likely = Likely(row.low, row.high);
    INFO(std::string(row.first), " in ", likely);
    CHECK(likely.find(row.first) != std::string::npos);
  }
  CHECK(Likely(86118401, 86118401) == "");
  CHECK(Likely(0, 3) == "");
}

TEST_CASE("shapes have the size that was asked for") {
  for (const int64_t low : {20 * kMiB, kGiB}) {
    const int64_t high = low + 10 * kMiB;
    const auto shapes = LikelyShapes(low, high, 100);
    CHECK(shapes.size() > 1);
    for (const TensorType& type : shapes) {
      CHECK(BytesOf(type) >= low);
      CHECK(BytesOf(type) <= high);
    }
  }
}

TEST_CASE("bytes are taken apart into primes") {
  CHECK(FactorText(86118400) == "4 * 2^10 * 5^2 * 29^2");
  CHECK(FactorText(4) == "4");
  CHECK(FactorText(28) == "4 * 7");
  CHECK(FactorText(4 * 1000003) == "");  // no size of a tensor: a prime
  CHECK(FactorText(6) == "");
  CHECK(FactorText(0) == "");
}

TEST_CASE("roots are the nearest") {
  CHECK(RootOf(100, 4, 2) == 5);
  CHECK(RootOf(90, 4, 2) == 5);
  CHECK(RootOf(int64_t{2000} * 4 * 1173063, 4, 1) == int64_t{2000} * 1173063);
}

}  // namespace
}  // namespace onnxfit::likely_shapes_test

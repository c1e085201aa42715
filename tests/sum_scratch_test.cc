#include <doctest/doctest.h>

#include "estimator/operators/kernel_scratch.h"

namespace onnxfit::sum_scratch_test {
namespace {

struct Row {
  Dims dims;
  uint64_t kept;
  DType dtype;
  int64_t partial;
  int64_t semaphores;
};

Dims Contiguous(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

constexpr uint64_t kChannels = 2;  // dimension 1
constexpr uint64_t kColumns = 2;   // of a matrix

// What torch 2.11 allocated for x.sum(dims) beside its result, on a card with 108
// multiprocessors.
TEST_CASE("what sums take beside their result on an A100") {
  const Row rows[] = {
      {{8, 64, 127, 129}, 2, DType::kFloat32, 1792, 256},
      {{8, 64, 128, 128}, 2, DType::kFloat32, 1792, 256},
      {{8, 2, 128, 128}, 2, DType::kFloat32, 128, 8},
      {{4096, 768}, 2, DType::kFloat32, 25165824, 24},
      {{1048576}, 0, DType::kFloat32, 512, 4},
      {{16777216}, 0, DType::kFloat32, 1728, 4},
      {{100000, 10}, 2, DType::kFloat32, 31360, 8},
      {{64, 3, 224, 224}, 2, DType::kFloat32, 1728, 12},
      {{2, 48, 600, 600}, 2, DType::kFloat32, 1728, 192},
      {{8, 197, 3072}, 4, DType::kFloat32, 39321600, 96},
      {{1024, 8, 256, 1}, 14, DType::kBFloat16, 16777216, 64},
      {{127, 2, 128, 8}, 0, DType::kBFloat16, 128, 4},
      {{10, 3, 1024, 64}, 2, DType::kFloat32, 960, 12},
      {{100, 3, 500}, 0, DType::kFloat32, 76, 4},
      {{127, 1024, 10, 32}, 10, DType::kFloat64, 234881024, 1024},
      {{10, 127, 256, 256}, 12, DType::kFloat64, 268435456, 2048},
      {{5000, 784}, 2, DType::kBFloat16, 31711232, 28},
      {{25088, 510}, 2, DType::kFloat32, 14100480, 32},
      {{8, 40000, 102}, 5, DType::kFloat32, 13996032, 52},  // 102 results lie side by side
      {{8, 131072, 5}, 5, DType::kBFloat16, 1105920, 8},
      {{8, 40000, 6}, 5, DType::kFloat64, 1929216, 8},
      {{8, 512, 128, 128}, 2, DType::kFloat32, 0, 0},
      {{32, 1000}, 2, DType::kFloat32, 0, 0},
      {{512, 50257}, 1, DType::kFloat32, 0, 0},
      {{32, 1, 64, 64}, 13, DType::kFloat32, 0, 0},
      {{500, 32, 1024}, 5, DType::kFloat32, 0, 0},
      {{32}, 0, DType::kBFloat16, 0, 0},
      {{128, 128}, 1, DType::kBFloat16, 0, 0},
      {{1, 1}, 0, DType::kBFloat16, 0, 0},
      {{3, 10}, 1, DType::kBFloat16, 0, 0},
      {{3, 500}, 0, DType::kFloat32, 0, 0},
      {{1, 32, 64}, 1, DType::kBFloat16, 0, 0},
      {{2, 32, 10}, 6, DType::kFloat32, 0, 0},
      {{2, 10, 32}, 6, DType::kFloat64, 0, 0},
      {{500, 32, 3, 100}, 7, DType::kBFloat16, 0, 0},
      {{0, 4}, 2, DType::kFloat32, 0, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(ToString(row.dims));
    CAPTURE(row.kept);
    const SumShape sum = SumOver(row.dtype, row.dims, Contiguous(row.dims), row.kept);
    const SumScratch scratch = ScratchOf(sum, DefaultDevice());
    CHECK(scratch.partial_bytes == row.partial);
    CHECK(scratch.semaphore_bytes == row.semaphores);
  }
}

TEST_CASE("whether summands lie closer together than results") {
  CHECK(SumOver(DType::kFloat32, {8, 64, 9}, {576, 9, 1}, kChannels).along_fastest);
  CHECK_FALSE(SumOver(DType::kFloat32, {8, 64, 9}, {576, 1, 64}, kChannels).along_fastest);
  CHECK_FALSE(SumOver(DType::kFloat32, {8, 64}, {64, 1}, kColumns).along_fastest);
  CHECK(SumOver(DType::kFloat32, {8, 64}, {64, 1}, 0).along_fastest);
}

}  // namespace
}  // namespace onnxfit::sum_scratch_test

// Which kernel bitsandbytes multiplies weights of 4 bits by.
#include "estimator/operators/packed_products.h"

#include <doctest/doctest.h>

#include <cstdint>

namespace onnxfit::packed_products_test {
namespace {

DeviceProfile Card(int capability, int64_t processors) {
  return {.compute_capability = capability, .multiprocessors = processors};
}

}  // namespace

// What _gemm_4bit_use_custom_cuda of bitsandbytes 0.50.2 answers.
TEST_CASE("few rows are multiplied by the packed weight, as cards differ") {
  struct Row {
    int capability;
    int64_t processors;
    int64_t outputs;
    int64_t inputs;
    int64_t most_rows;
  };
  const Row rows[] = {
      {75, 40, 3072, 1024, 64},    {80, 108, 3072, 768, 512},  {80, 108, 768, 768, 32},
      {80, 108, 4096, 4096, 5},    {80, 108, 11008, 4096, 64}, {86, 84, 4096, 4096, 64},
      {89, 128, 14336, 4096, 128}, {90, 132, 3072, 768, 320},  {90, 132, 28672, 8192, 64},
      {100, 148, 32000, 4096, 32}, {120, 170, 4096, 14336, 8}, {121, 48, 4096, 4096, 256},
  };
  for (const Row& row : rows) {
    CAPTURE(row.capability);
    CAPTURE(row.outputs);
    CAPTURE(row.inputs);
    const DeviceProfile card = Card(row.capability, row.processors);
    const DType type = row.capability < 80 ? DType::kFloat16 : DType::kBFloat16;
    PackedProduct product = {type, row.most_rows, row.outputs, row.inputs};
    CHECK(ReadsPacked(product, card));
    ++product.rows;
    CHECK_FALSE(ReadsPacked(product, card));
  }
}

TEST_CASE("what no kernel reads packed") {
  const DeviceProfile card = Card(80, 108);
  CHECK(ReadsPacked({DType::kBFloat16, 4, 768, 64}, card));
  CHECK_FALSE(ReadsPacked({DType::kBFloat16, 4, 768, 96}, card));  // no whole blocks of 64
  CHECK(ReadsPacked({DType::kFloat32, 7, 3072, 768}, card));
  CHECK_FALSE(ReadsPacked({DType::kFloat32, 8, 3072, 768}, card));
  CHECK_FALSE(ReadsPacked({DType::kBFloat16, 8, 3072, 768}, Card(87, 16)));  // not measured there
}

}  // namespace onnxfit::packed_products_test

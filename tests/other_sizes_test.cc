#include "estimator/workspaces/other_sizes.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/resnet_layer.h"

namespace onnxfit::other_sizes_test {
namespace {

constexpr auto kForward = ConvolutionPass::kForward;
constexpr auto kOfWeight = ConvolutionPass::kWeightGradient;
constexpr int64_t kWeightBytes = 4 * 64 * 64 * 9;
constexpr int64_t TensorBytes(int64_t batch) { return 4 * batch * 64 * 56 * 56; }

struct BatchRow {
  const char* name;
  std::vector<BatchWorkspace> known;
  int64_t batch;
  int64_t bytes;
};

TEST_CASE("at another batch") {
  const auto copies = [](int64_t batch) { return 2 * TensorBytes(batch) + kWeightBytes + 16; };
  const auto parts = [](int64_t batch) { return TensorBytes(batch) + 9 * kWeightBytes + 700; };
  const BatchRow rows[] = {
      {"copies of the same tensors", {{4, copies(4)}, {32, 5}}, 8, copies(8)},
      {"parts alone, on the line", {{4, 1'000'000}, {32, 3'800'000}}, 16, 2'200'000},
      {"copies and parts of the weight", {{4, parts(4)}, {32, 0}}, 8, parts(8)},
      {"copies as at the next one", {{4, 20'000'000}, {32, copies(32)}}, 8, copies(8)},
      {"copies, then others, as at the nearest", {{4, kWeightBytes}, {32, 16}}, 8, kWeightBytes},
      {"nothing as at the nearest", {{4, 0}, {32, 1'000'000}}, 8, 0},
      {"not nothing as at the further one", {{4, 1'400'000}, {32, 0}}, 8, 1'200'000},
      {"on the line between", {{4, 20'000'000}, {32, 12'900'000}}, 8, 18'985'714},
      {"of one alone", {{4, 20'000'000}}, 8, 40'000'000},
      {"below, as many a sample", {{4, 20'000'000}, {32, 80'000'000}}, 1, 5'000'000},
      {"at that very one", {{4, 17}, {8, 18}}, 8, 18},
  };
  for (const BatchRow& row : rows) {
    CAPTURE(std::string(row.name));
    CHECK(AtBatch(ResnetLayer(kForward, row.batch), row.known) == row.bytes);
  }
}

// A product of matrices a sample, whose results are summed up.
TEST_CASE("a gradient of the weight for each sample") {
  Convolution point = ResnetLayer(kOfWeight, 12);
  point.weight = {64, 64, 1, 1};
  point.padding = {0, 0};
  CHECK(AtBatch(point, {{4, 4 * 4 * 64 * 64}}) == 12 * 4 * 64 * 64);
}

Convolution Sized(ConvolutionPass pass, int64_t batch, int64_t size) {
  Convolution layer = ResnetLayer(pass, batch);
  for (Dims* dims : {&layer.input, &layer.output}) (*dims)[2] = (*dims)[3] = size;
  return layer;
}

TEST_CASE("copies as a closed form has them come before what is nearer") {
  const int64_t copies = 2 * TensorBytes(8) + kWeightBytes;
  const std::vector<BatchWorkspace> known = {{4, 0}, {32, 2 * TensorBytes(32) + kWeightBytes}};
  const Convolution layer = ResnetLayer(kForward, 8);
  CHECK(AtBatch(layer, known) == 0);
  CHECK(AtBatch(layer, known, copies + 16) == copies);  // as that one asked for beside them
  CHECK(AtBatch(layer, known, copies + 1000) == 0);
}

TEST_CASE("of another size, as at the one with as many elements") {
  const int64_t small = 4 * 16 * 64 * 28 * 28;  // a tensor of it
  const std::vector<SizedLayer> known = {
      {{100, 100}, {100, 100}, {{1, 0}, {16, 0}}},
      {{28, 28}, {28, 28}, {{4, 5}, {16, 2 * small + kWeightBytes}}}};
  // 2 x 78 x 78 elements: 16 x 28 x 28 are nearer than 1 x 100 x 100.
  const int64_t tensor = 4 * 2 * 64 * 78 * 78;
  CHECK(AtSize(Sized(kForward, 2, 78), known) == 2 * tensor + kWeightBytes);
  CHECK(AtSize(Sized(kForward, 16, 78), known) == 0);
  CHECK_FALSE(AtSize(Sized(kForward, 16, 86), {}));
}

TEST_CASE("what is no copies is in proportion, but for groups") {
  const std::vector<SizedLayer> known = {{{28, 28}, {28, 28}, {{16, 100'000'000}}}};
  Convolution layer = Sized(kOfWeight, 4, 28);
  CHECK(AtSize(layer, known) == 25'000'000);
  layer.groups = 64;
  layer.weight = {64, 1, 3, 3};
  CHECK_FALSE(AtSize(layer, known));
}

}  // namespace
}  // namespace onnxfit::other_sizes_test

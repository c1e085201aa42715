#include "estimator/ranks/shards.h"

#include <doctest/doctest.h>

#include <vector>

#include "estimator/base/cards.h"

namespace onnxfit::shards_test {
namespace {

TensorType Floats(Dims dims) { return {DType::kFloat32, std::move(dims)}; }

// GPT-2's embeddings and last norm, and one of its blocks.
std::vector<TensorType> Root() {
  return {Floats({50257, 768}), Floats({1024, 768}), Floats({768}), Floats({768})};
}

std::vector<TensorType> Block() {
  std::vector<TensorType> types = {Floats({768, 2304}), Floats({2304}), Floats({768, 768}),
                                   Floats({768, 3072}), Floats({3072}), Floats({3072, 768})};
  for (int i = 0; i < 6; ++i) types.push_back(Floats({768}));
  return types;
}

TEST_CASE("ranks have as many rows each, the last of them may be empty") {
  CHECK(FirstRows(Floats({50257, 768}), 8) == Floats({6283, 768}));
  CHECK(Gathered(Floats({50257, 768}), 8) == Floats({50264 * 768}));
  CHECK(FirstRows(Floats({2, 3}), 8) == Floats({1, 3}));
  CHECK(Gathered(Floats({2, 3}), 8) == Floats({24}));
  CHECK(FirstRows(Floats({}), 8) == Floats({}));
}

TEST_CASE("tensors of several types are gathered as bytes") {
  const std::vector<TensorType> types = {Floats({8, 2}), {DType::kBFloat16, {9}}};
  CHECK(GatheredTogether(types, 8) == TensorType{DType::kUint8, {8 * 2 * 4 + 16 * 2}});
  CHECK(GatheredTogether(std::vector<TensorType>{types[0]}, 8) == Floats({16}));
}

// What PyTorch 2.11 asks for on a card with the multiprocessors of an A100, of eight ranks.
TEST_CASE("the tables are as long as recorded events have them") {
  CHECK(8 * NumbersToSplit(Root(), 8, DefaultDevice()) == 15544);
  CHECK(8 * NumbersToSplit(Block(), 8, DefaultDevice()) == 7368);
  CHECK(8 * NumbersToJoin(Root(), 8) == 77160);
  CHECK(8 * NumbersToJoin(Block(), 8) == 14480);
}

TEST_CASE("nothing is needed of a card that is not known") {
  CHECK(NumbersToSplit(std::vector<TensorType>{Floats({0})}, 8, DeviceProfile()) == 5);
}

}  // namespace
}  // namespace onnxfit::shards_test

#include "estimator/program/module_tensors.h"

#include <doctest/doctest.h>

namespace onnxfit::module_tensors_test {
namespace {

TEST_CASE("children come before their parent, each with its own tensors in order") {
  const std::vector<std::string> names = {
      "scale",       "conv.weight",    "block.0.weight",   "block.0.bias",
      "block.scale", "block.1.weight", "conv.running_mean"};
  std::string order;
  for (const size_t i : PlacementOrder(names)) order += names[i] + " ";
  CHECK(order ==
        "conv.weight conv.running_mean block.0.weight block.0.bias block.1.weight block.scale "
        "scale ");
}

TEST_CASE("a copy has a module's own tensors before those of its children") {
  const std::vector<std::string> names = {"conv.weight", "block.0.weight", "block.scale", "scale",
                                          "conv.running_mean"};
  std::string order;
  for (const size_t i : CopyOrder(names)) order += names[i] + " ";
  CHECK(order == "scale conv.weight conv.running_mean block.scale block.0.weight ");
}

// A module of buffers alone stands where it was made, not behind those that have parameters.
TEST_CASE("modules come in the order in which a file lists them") {
  const std::vector<std::string> names = {"embed.weight", "norm.weight", "rope.inv_freq"};
  const std::vector<std::string> modules = {"", "embed", "rope", "norm"};
  CHECK(PlacementOrder(names, modules) == std::vector<size_t>{0, 2, 1});
  CHECK(CopyOrder(names, modules) == std::vector<size_t>{0, 2, 1});
  CHECK(PlacementOrder(names, {"", "rope"}) == std::vector<size_t>{2, 0, 1});
}

TEST_CASE("a path of many parts does not need a deep stack") {
  std::string deep;
  for (int i = 0; i < 300'000; ++i) deep += "m.";
  CHECK(PlacementOrder({deep + "weight"}) == std::vector<size_t>{0});
}

}  // namespace
}  // namespace onnxfit::module_tensors_test

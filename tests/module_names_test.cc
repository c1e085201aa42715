#include "estimator/program/module_names.h"

#include <doctest/doctest.h>

namespace onnxfit::module_names_test {
namespace {

TEST_CASE("the path of a module") {
  CHECK(ModulePath({}).empty());
  CHECK(ModulePath({"", "layer1", "layer1.0", "layer1.0.conv1"}) == "layer1.0.conv1");
  CHECK(ModulePath({"model", "layer1", "conv1"}) == "model.layer1.conv1");
}

TEST_CASE("the path of a module in a second call of its parent") {
  CHECK(ModulePath({"enc", "enc.block@1", "enc.block.ffn@1", "enc.block.ffn.act@1"}) ==
        "enc.block@1.ffn.act");
  CHECK(ModulePath({"enc", "enc.block@1", "enc.block.ffn", "enc.block.ffn.act"}) ==
        "enc.block@1.ffn.act");
  CHECK(ModulePath({"enc.block@1", "enc.block.act@2"}) == "enc.block@1.act@2");
}

}  // namespace
}  // namespace onnxfit::module_names_test

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::freeze_test {
namespace {

TEST_CASE("a batch norm that the file has lost can be frozen by its name") {
  const Program program = Build(R"(net (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
    < float[2, 2, 1, 1] "onnx::Conv_7" = ["location": "none"], float[2] "onnx::Conv_8" = {0, 0} > {
      ["/net/conv/Conv"] y = Conv (x, "onnx::Conv_7", "onnx::Conv_8")
    })",
                                {.freeze = {"net.conv_batch_norm.*"}})
                              .program;
  std::string text;
  for (const NameId name : program.frozen) text += program.values[Index(name)].name + " ";
  CHECK(text == "net.conv_batch_norm.weight net.conv_batch_norm.bias ");
  CHECK(program.parameters.size() == 1);
  REQUIRE(program.assumptions.size() == 1);
  CHECK(program.assumptions[0] ==
        "2 of 3 parameters are frozen; batch norms among their layers still run in training mode");
}

TEST_CASE("of batch norms nothing is said where there are none") {
  const Program program = Build(kTwoLayers, {.freeze = {"w1"}}).program;
  REQUIRE(program.assumptions.size() == 1);
  CHECK(program.assumptions[0] == "1 of 2 parameters are frozen");
}

}  // namespace
}  // namespace onnxfit::freeze_test

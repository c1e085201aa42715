#include "estimator/program/freeze.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit {
namespace {

Roles RolesOf(const std::vector<std::string>& parameters) {
  Roles roles;
  for (const std::string& name : parameters) roles.parameters.push_back({.name = name, .type = {}});
  return roles;
}

// The names of those that are frozen, or the error.
std::string FrozenText(const std::vector<std::string>& parameters,
                       const std::vector<std::string>& globs) {
  const Roles roles = RolesOf(parameters);
  try {
    std::string text;
    const std::vector<bool> frozen = FindFrozen({}, roles, globs);
    for (size_t i = 0; i < frozen.size(); ++i) {
      if (frozen[i]) text += roles.parameters[i].name + " ";
    }
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a glob freezes the parameters whose names it matches") {
  const std::vector<std::string> names = {"stem.weight", "layer1.0.conv1.weight",
                                          "layer1.0.bn1.bias", "layer10.0.conv1.weight", "fc.bias"};
  struct Row {
    std::vector<std::string> globs;
    const char* frozen;
  };
  const Row rows[] = {
      {{}, ""},
      {{"fc.bias"}, "fc.bias "},
      {{"layer1.*"}, "layer1.0.conv1.weight layer1.0.bn1.bias "},
      {{"layer1*"}, "layer1.0.conv1.weight layer1.0.bn1.bias layer10.0.conv1.weight "},
      {{"layer??.*"}, "layer10.0.conv1.weight "},
      {{"*.bias"}, "layer1.0.bn1.bias fc.bias "},
      {{"*1*.conv?.weight"}, "layer1.0.conv1.weight layer10.0.conv1.weight "},
      {{"stem.*", "fc.*"}, "stem.weight fc.bias "},
      {{"*"},
       "stem.weight layer1.0.conv1.weight layer1.0.bn1.bias layer10.0.conv1.weight fc.bias "},
      {{"fc"},
       "--freeze: expected names of parameters (fc.bias, stem.weight, "
       "layer1.0.conv1.weight …), found 'fc'"},
      {{"layer2.*"},
       "--freeze: expected names of parameters (layer1.0.conv1.weight, "
       "layer1.0.bn1.bias, layer10.0.conv1.weight …), found 'layer2.*'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.frozen);
    CHECK(FrozenText(names, row.globs) == row.frozen);
  }
}

TEST_CASE("the exporter's wrapper may be left out") {
  const std::vector<std::string> names = {"model.fc.weight", "model.fc.bias"};
  CHECK(FrozenText(names, {"fc.*"}) == "model.fc.weight model.fc.bias ");
  CHECK(FrozenText(names, {"model.fc.bias"}) == "model.fc.bias ");
}

TEST_CASE("without parameters nothing can be frozen") {
  CHECK(FrozenText({}, {"fc.*"}) ==
        "--freeze: expected names of parameters, of which there are none, found 'fc.*'");
}

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

TEST_CASE("with all parameters frozen there is nothing to train") {
  const Program program = Build(kTwoLayers, {.freeze = {"*"}}).program;
  REQUIRE(program.warnings.size() == 1);
  CHECK(program.warnings[0].text == "all parameters are frozen");
}

}  // namespace onnxfit

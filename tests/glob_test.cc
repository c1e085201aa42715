#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/text.h"

namespace onnxfit::glob_test {
namespace {

// The names that are picked, or the error.
std::string PickedText(const std::vector<std::string>& names,
                       const std::vector<std::string>& globs) {
  try {
    std::string text;
    const std::vector<bool> picked = PickNames(names, globs, {"--freeze", "parameters", ""});
    for (size_t i = 0; i < picked.size(); ++i) {
      if (picked[i]) text += names[i] + " ";
    }
    return text;
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_CASE("a glob picks the names that it matches") {
  const std::vector<std::string> names = {"stem.weight", "layer1.0.conv1.weight",
                                          "layer1.0.bn1.bias", "layer10.0.conv1.weight", "fc.bias"};
  struct Row {
    std::vector<std::string> globs;
    const char* picked;
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
    CAPTURE(row.picked);
    CHECK(PickedText(names, row.globs) == row.picked);
  }
}

TEST_CASE("the exporter's wrapper may be left out") {
  const std::vector<std::string> names = {"model.fc.weight", "model.fc.bias"};
  CHECK(PickedText(names, {"fc.*"}) == "model.fc.weight model.fc.bias ");
  CHECK(PickedText(names, {"model.fc.bias"}) == "model.fc.bias ");
}

TEST_CASE("without names nothing can be picked") {
  CHECK(PickedText({}, {"fc.*"}) ==
        "--freeze: expected names of parameters, of which there are none, found 'fc.*'");
}

TEST_CASE("a message names nothing twice, and nothing that has no name") {
  CHECK(PickedText({"conv", "", "relu", "conv", ""}, {"fc.*"}) ==
        "--freeze: expected names of parameters (conv, relu), found 'fc.*'");
}

}  // namespace
}  // namespace onnxfit::glob_test

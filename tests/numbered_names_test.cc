#include "estimator/base/numbered_names.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace onnxfit::numbered_names_test {
namespace {

TEST_CASE("names that differ in numbers alone have one pattern") {
  CHECK(NumberPattern("layer.12.conv3") == NumberPattern("layer.0.conv20"));
  CHECK(NumberPattern("layer.1.conv") != NumberPattern("layer.1.norm"));
  CHECK(NumberPattern("layer1") != NumberPattern("layer"));
}

TEST_CASE("the name of all") {
  struct Row {
    std::vector<std::string> names;
    const char* common;
  };
  const Row rows[] = {{{"a"}, "a"},
                      {{""}, ""},
                      {{"layer.3/relu_1"}, "layer.3/relu_1"},
                      {{"layer.3/relu_1", "layer.4/relu_1"}, "layer.{3,4}/relu_1"},
                      {{"layer.3/relu_1", "layer.4/relu_1", "layer.4/relu_20"}, "layer.*/relu_*"},
                      {{"1", "2"}, "{1,2}"},
                      {{"a1", "a1", "a2"}, "a{1,2}"},
                      {{"a01", "a1"}, "a{01,1}"},
                      {{"99999999999999999999999", "1"}, "{99999999999999999999999,1}"},
                      {{"l.7a", "l.8a", "l.9a", "l.10a"}, "l.*a"},
                      {{"7a8", "7a9"}, "7a{8,9}"}};
  for (const Row& row : rows) {
    CAPTURE(row.common);
    CHECK(CommonName(row.names) == row.common);
  }
}

}  // namespace
}  // namespace onnxfit::numbered_names_test

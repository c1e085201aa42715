#include "estimator/base/device.h"

#include <doctest/doctest.h>

namespace onnxfit::device_test {
namespace {

TEST_CASE("versions of cuDNN read and write as it counts them") {
  struct Row {
    int version;
    const char* text;
  };
  constexpr Row kRows[] = {{91900, "9.19.0"}, {90100, "9.1.0"}, {91002, "9.10.2"},
                           {8902, "8.9.2"},   {8500, "8.5.0"},  {7605, "7.6.5"}};
  for (const auto& [version, text] : kRows) {
    CHECK(CudnnVersionText(version) == text);
    CHECK(CudnnVersionOf(text) == version);
  }
  CHECK(CudnnVersionOf("") == 0);
  CHECK(CudnnVersionOf("9.19") == 0);
}

}  // namespace
}  // namespace onnxfit::device_test

#include <doctest/doctest.h>

#include <cstdlib>

#include "cli/flags.h"

namespace onnxfit::variables_test {

TEST_CASE("variables that are none of ours, but nearly") {
  CHECK(WarnedOf("ONNXFIT_BATCH").empty());
  CHECK(WarnedOf("ONNXFIT_SOMETHING_ELSE").empty());
  CHECK(WarnedOf("ONNXFIT_").empty());
  CHECK(WarnedOf("OTHER_BATCH_SIZE").empty());
  CHECK(WarnedOf("ONNXFIT_PRECISON") ==
        "ONNXFIT_PRECISON is not read (did you mean ONNXFIT_PRECISION?)");
  CHECK(WarnedOf("ONNXFIT_BATCH_SIZE") ==
        "ONNXFIT_BATCH_SIZE is not read (did you mean ONNXFIT_BATCH?)");
  CHECK(WarnedOf("ONNXFIT_BATCHSIZE") ==
        "ONNXFIT_BATCHSIZE is not read (did you mean ONNXFIT_BATCH?)");
  setenv("ONNXFIT_BATHC", "8", 1);
  const std::vector<std::string> warned = StrangeVariables();
  unsetenv("ONNXFIT_BATHC");
  REQUIRE(warned.size() == 1);
  CHECK(warned[0] == WarnedOf("ONNXFIT_BATHC"));
}

}  // namespace onnxfit::variables_test

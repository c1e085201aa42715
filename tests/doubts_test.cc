#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/fit/estimate.h"
#include "estimator/graph/loader.h"

namespace onnxfit::doubts_test {
namespace {

Estimate OfT5(const TrainingSettings& settings) {
  const std::string path = std::string(ONNXFIT_SOURCE_DIR) + "/models/t5_small.script.onnx";
  return MakeEstimate(LoadGraph(path), {.binding = {.batch = 2}, .settings = settings});
}

// In eval nothing drops out, and whether a head is tied remains.
TEST_CASE("what the file leaves open is answered both ways") {
  const Estimate guessed = OfT5({});
  REQUIRE(guessed.range.has_value());
  CHECK(guessed.range->high.flags == "--dropout 0.1 --assume tied-head=no");
  CHECK(guessed.range->low.device_bytes <= guessed.device_bytes);
  CHECK(guessed.device_bytes <= guessed.range->high.device_bytes);
  const Estimate evaluated = OfT5({.mode = Mode::kEval});
  REQUIRE(evaluated.range.has_value());
  CHECK(evaluated.range->high.flags == "--assume tied-head=no");
}

TEST_CASE("each end is the estimate that its flags give") {
  const DeviceRange range = OfT5({}).range.value();
  CHECK(OfT5({.dropout = 0.1, .assumed = {.tied_head = false}}).device_bytes ==
        range.high.device_bytes);
}

TEST_CASE("what flags say is open no more") {
  CHECK_FALSE(OfT5({.dropout = 0.1, .assumed = {.tied_head = true}}).range.has_value());
  const Estimate dropout_open = OfT5({.assumed = {.tied_head = true}});
  REQUIRE(dropout_open.range.has_value());
  CHECK(dropout_open.range->high.flags.find("tied-head") == std::string::npos);
}

TEST_CASE("the range is a warning") {
  const Warnings warnings = OfT5({}).warnings;
  const auto warning = std::find_if(warnings.begin(), warnings.end(),
                                    [](const Warning& w) { return w.code == "OF109"; });
  REQUIRE(warning != warnings.end());
  CHECK(warning->text.starts_with("the file has lost what decides between "));
  CHECK(warning->text.ends_with(" MiB (--dropout 0.1 --assume tied-head=no)"));
}

TEST_CASE("files that lose nothing leave nothing open") {
  const std::string path = std::string(ONNXFIT_SOURCE_DIR) + "/models/resnet18.train.onnx";
  CHECK_FALSE(MakeEstimate(LoadGraph(path), {.binding = {.batch = 2}}).range.has_value());
}

}  // namespace
}  // namespace onnxfit::doubts_test

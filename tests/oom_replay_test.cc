#include "estimator/fit/oom_replay.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/graph/loader.h"
#include "tests/trace_helpers.h"

namespace onnxfit::oom_replay_test {
namespace {

OomExplanation Explain(const std::string& text) {
  return ExplainOom(ReadOomLog("CUDA out of memory. Tried to allocate " + text).processes.at(0));
}

Graph FileOf(const std::string& name) {
  return LoadGraph(std::string(ONNXFIT_SOURCE_DIR) + "/models/" + name);
}

EstimateRequest Request(int64_t batch, Precision precision = Precision::kFp32,
                        Optimizer optimizer = Optimizer::kAdamW) {
  return {.binding = {.batch = batch},
          .settings = {.precision = precision, .optimizer = optimizer}};
}

// PyTorch 2.11 ran on a card of 4294770688 bytes without context: batch 23 trains, 24 dies in its
// third step with this message; of fp64 not even the weights and moments fit.
TEST_CASE("a model says who asked, when, and which batch fits") {
  const OomExplanation oom = Explain(
      "294.00 MiB. GPU 0 has a total capacity of 4.00 GiB of which 261.81 MiB is free. Of the "
      "allocated memory 2.96 GiB is allocated by PyTorch, and 804.57 MiB is reserved by PyTorch "
      "but unallocated.");
  const OomReplay replay = ReplayOom(FileOf("vgg16.script.onnx"), Request(24), oom);
  REQUIRE(replay.fails_at);
  CHECK(replay.fails_at->when.step == 3);
  CHECK(replay.fails_at->when.phase == Phase::kBackward);
  CHECK(replay.fails_at->bytes == 24 * 64 * 224 * 224 * 4);
  REQUIRE(replay.largest);
  CHECK(replay.largest->batch == 23);
  CHECK(!replay.largest->at_most);
  REQUIRE(!replay.candidates.empty());
  for (const Asked& asked : replay.candidates) {
    CHECK(asked.bytes == int64_t{24} * 64 * 224 * 224 * 4);
  }
  // Where as much is allocated is where it failed.
  CHECK(replay.candidates[0].matches);
  CHECK(replay.candidates[0].when.node == replay.fails_at->when.node);
  CHECK(replay.context_of.empty());
}

TEST_CASE("not even one sample may fit") {
  const OomExplanation oom = Explain(
      "128.00 MiB. GPU 0 has a total capacity of 4.00 GiB of which 57.81 MiB is free. Of the "
      "allocated memory 3.85 GiB is allocated by PyTorch, and 97.99 MiB is reserved by PyTorch "
      "but unallocated.");
  const OomReplay replay =
      ReplayOom(FileOf("vgg16.script.onnx"), Request(12, Precision::kFp64), oom);
  REQUIRE(replay.largest);
  CHECK(replay.largest->batch == 0);
  REQUIRE(replay.fails_at);
  CHECK(replay.fails_at->when.step == 1);
  CHECK(replay.fails_at->bytes == 128 << 20);
}

// An article's net of two layers of 2000 on a P100: the whole data set as one batch.
TEST_CASE("what others hold is taken off the card") {
  const std::string numbers =
      "8.74 GiB (GPU 0; 15.90 GiB total capacity; 8.84 GiB already allocated; 6.32 GiB free; "
      "8.86 GiB reserved in total by PyTorch)";
  const OomReplay replay =
      ReplayOom(FileOf("mlp_2000.onnxtxt"), Request(1173063, Precision::kFp32, Optimizer::kAdam),
                Explain(numbers));
  CHECK(replay.card_bytes == doctest::Approx(15.18 * (1 << 30)).epsilon(1e-6));
  REQUIRE(replay.largest);
  CHECK(replay.largest->batch > 490000);
  CHECK(replay.largest->batch < 531000);
  REQUIRE(replay.largest->at_most);  // 10 MiB more are a thousand rows
  CHECK(*replay.largest->at_most > replay.largest->batch);
}

TEST_CASE("a run that fits says so, a message without the card's size less") {
  const Graph file = ParseGraph(kTwoLayers);
  const OomReplay fits =
      ReplayOom(file, Request(16),
                Explain("2.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 1.00 "
                        "MiB is free. Of the allocated memory 10.00 MiB is allocated by "
                        "PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated."));
  CHECK(!fits.fails_at);
  CHECK(!fits.candidates.empty());
  CHECK(fits.largest->batch > 16);
  const OomReplay unknown = ReplayOom(file, Request(16), Explain("2.00 MiB (GPU 0;"));
  CHECK(unknown.card_bytes == 0);
  CHECK(!unknown.largest);
  CHECK(!unknown.candidates.empty());
  const OomReplay total =
      ReplayOom(file, Request(16), Explain("2.00 MiB (GPU 0; 1.00 GiB total capacity;"));
  CHECK(total.context_of == "A100");
  CHECK(total.card_bytes == (1024 - 503) << 20);
}

}  // namespace
}  // namespace onnxfit::oom_replay_test

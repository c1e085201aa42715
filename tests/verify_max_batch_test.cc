#include <doctest/doctest.h>

#include <string>

#include "estimator/fit/verdict.h"
#include "estimator/fit/verify.h"
#include "estimator/onnx/loader.h"
#include "tests/fake_gpus.h"
#include "tests/paths.h"

namespace onnxfit::verify_max_batch_test {
namespace {

const std::string kRoot = kSourceDir;

VerifiedMaxBatch LenetOn(Gpu& card, const ReplayWatch& watch = {}) {
  return FindMaxBatchOn(LoadGraph(kRoot + "/models/lenet.onnxtxt"), {}, {.name = "a card"}, card,
                        kVerdictSteps, watch);
}

// Whether `batch` was carried out, and how it ended.
bool Ran(const VerifiedMaxBatch& answer, int64_t batch, bool runs) {
  for (const ReplayedBatch& replayed : answer.replayed) {
    if (replayed.batch == batch) return replayed.failure.has_value() != runs;
  }
  return false;
}

TEST_CASE("the batch that is found ran, and its successor failed") {
  for (const int64_t mib : {30, 37, 64}) {
    CAPTURE(mib);
    const auto card = NewCountingGpu(mib * kMiB, 2 * mib * kMiB);
    const VerifiedMaxBatch answer = LenetOn(*card);
    CHECK(answer.free_bytes == mib * kMiB);
    CHECK(answer.batch > 0);
    CHECK(Ran(answer, answer.batch, true));
    CHECK(Ran(answer, answer.batch + 1, false));
    // The prediction is a safe one: all around it run, too.
    CHECK(answer.batch >= answer.predicted.batch);
    CHECK(answer.replayed[0].batch == answer.predicted.batch);
    CHECK(card->Read().free_bytes == mib * kMiB);
  }
}

TEST_CASE("a card that takes more than it is asked for runs less than predicted") {
  HostGpu card({.free_bytes = 64 * kMiB, .more_each_take = 8 * kMiB});
  const VerifiedMaxBatch answer = LenetOn(card);
  CHECK(answer.batch > 0);
  CHECK(answer.batch < answer.predicted.batch);
  CHECK(Ran(answer, answer.batch, true));
  CHECK(Ran(answer, answer.batch + 1, false));
}

TEST_CASE("where not even one sample runs, the answer is 0") {
  const auto card = NewCountingGpu(kMiB, 64 * kMiB);
  const VerifiedMaxBatch answer = LenetOn(*card);
  CHECK(answer.batch == 0);
  CHECK(answer.predicted.batch == 0);
  REQUIRE(answer.replayed.size() == 1);
  REQUIRE(answer.replayed[0].failure);
  CHECK(answer.replayed[0].failure->free_bytes == kMiB);
}

TEST_CASE("a search that is stopped keeps what ran") {
  const auto card = NewCountingGpu(64 * kMiB, 64 * kMiB);
  int replays = 0;
  const ReplayWatch watch = {.begins = [&](int32_t step, Phase) { replays += step == 0 ? 1 : 0; },
                             .is_stopped = [&] { return replays == 3; }};
  const VerifiedMaxBatch answer = LenetOn(*card, watch);
  CHECK(answer.was_stopped);
  CHECK(answer.replayed.size() == 2);
  CHECK(Ran(answer, answer.batch, true));
  CHECK(card->Read().free_bytes == 64 * kMiB);
}

}  // namespace
}  // namespace onnxfit::verify_max_batch_test

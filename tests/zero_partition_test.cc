#include "estimator/ranks/zero_partition.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/fit/estimate.h"
#include "estimator/onnx/loader.h"
#include "tests/residual_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::zero_partition_test {
namespace {

// 4, 96, 96 and 2 elements: of two ranks each has 100, the first a, b and nothing of c and d.
constexpr char kNet[] = R"(
  net (float[2, 2] x) => (float[2, 2] y)
  < float[2, 2] a = ["location": "none"], float[2, 48] b = ["location": "none"],
    float[48, 2] c = ["location": "none"], float[2] d = ["location": "none"] > {
    h = MatMul (x, a)
    i = MatMul (h, b)
    j = MatMul (i, c)
    y = Add (j, d)
  })";

constexpr int64_t kPart = 100;

TrainingSettings Partitioned(int64_t bucket) {
  TrainingSettings settings = {.precision = Precision::kBf16, .loss = Loss::kMse, .steps = 2};
  settings.ranks = {.strategy = Strategy::kZero2, .world = 2, .reduce_bucket = bucket};
  return settings;
}

// What ZeRO asks for in one phase of a step: "200 400".
std::string AskedIn(int32_t step, Phase phase, const TrainingSettings& settings) {
  const Trace trace = Train(Build(kNet, settings).program, settings);
  std::string text;
  bool is_there = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) is_there = event.id == step && event.phase == phase;
    if (event.type != Event::Type::kAlloc || !is_there) continue;
    const Buffer& buffer = trace.buffers[Index(event.id)];
    if (LabelText(trace, buffer.label) != "ZeRO") continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", buffer.bytes);
  }
  return text;
}

TEST_CASE("parameters are in one buffer, and the rank's part in 32 bits") {
  // The buffer, a copy of the part, the part in 32 bits, a gradient for a moment.
  CHECK(AskedIn(0, Phase::kSetup, Partitioned(1000)) ==
        fmt::format("{} {} {} {}", 2 * 2 * kPart, 2 * kPart, 4 * kPart, 4 * kPart));
}

TEST_CASE("one bucket has all gradients, then the part stays") {
  // The bucket; a copy of what two ranks get; a's and b's gradients.
  CHECK(AskedIn(2, Phase::kBackward, Partitioned(1000)) ==
        fmt::format("{} {} {}", 2 * 1000, 2 * 198, 2 * 100));
}

TEST_CASE("full buckets are reduced, and what is larger than one on its own") {
  // d and c fill one, of the second rank alone; then b, then a.
  CHECK(AskedIn(2, Phase::kBackward, Partitioned(98)) == fmt::format("{} {}", 2 * 98, 2 * 100));
  CHECK(AskedIn(2, Phase::kBackward, Partitioned(50)) == fmt::format("{} {}", 2 * 50, 2 * 100));
}

TEST_CASE("the part's gradient is put together, and then in 32 bits") {
  // First the norms of a's and b's, in 64 bits, and that of all, as it is and unscaled, which
  // stays.
  const std::string norms = fmt::format("{} 8 {} 8 4 4", 8 * 4, 8 * 96);
  CHECK(AskedIn(2, Phase::kOptimizer, Partitioned(1000)) ==
        fmt::format("{} {} {}", norms, 2 * kPart, 4 * kPart));
  TrainingSettings fp32 = Partitioned(1000);
  fp32.precision = Precision::kFp32;
  CHECK(AskedIn(2, Phase::kOptimizer, fp32) == fmt::format("{} {}", norms, 4 * kPart));
}

// Two micro-batches a step.
TrainingSettings InTwo(Strategy strategy, int64_t bucket) {
  TrainingSettings settings = Partitioned(bucket);
  settings.ranks.strategy = strategy;
  settings.loop.accumulate = 2;
  return settings;
}

TEST_CASE("stage 1 reduces behind the step's last micro-batch, stage 2 behind each") {
  const std::string once = fmt::format("{} {} {}", 2 * 1000, 2 * 198, 2 * 100);
  CHECK(AskedIn(2, Phase::kBackward, InTwo(Strategy::kZero1, 1000)) == once);
  CHECK(AskedIn(2, Phase::kBackward, InTwo(Strategy::kZero2, 1000)) == once + " " + once);
}

// Of d alone and of b, c and d: a bucket that ends within the second rank's has what is the first's
// in a bucket of its own.
TEST_CASE("stage 1 fills buckets in the order of parameters, with overlap_comm as they are made") {
  TrainingSettings settings = InTwo(Strategy::kZero1, 196);
  CHECK(AskedIn(2, Phase::kBackward, settings) ==
        fmt::format("{} {} {}", 2 * 196, 2 * 196, 2 * 100));
  settings.ranks.overlap_comm = true;
  CHECK(AskedIn(2, Phase::kBackward, settings) ==
        fmt::format("{0} {0} {1} {2}", 2 * 196, 2 * 194, 2 * 100));
}

TEST_CASE("a gradient larger than the bucket is copied on the way to the host") {
  TrainingSettings settings = Partitioned(50);
  settings.ranks.zero_offload = true;
  const std::string whole = AskedIn(2, Phase::kBackward, settings);
  // Of d and c's end nothing is the rank's; of b and a a norm in 64 bits and a copy in 32.
  CHECK(whole.find(fmt::format("{} {}", 2 * 50, 2 * 96)) == 0);
}

TEST_CASE("what is not known of stage 3 is refused") {
  TrainingSettings settings = {.precision = Precision::kBf16};
  settings.lora.rank = 8;
  settings.ranks.strategy = Strategy::kZero2;
  CHECK_NOTHROW(CheckZeroPartition({}, settings));
  settings.ranks.strategy = Strategy::kZero3;
  CHECK_THROWS_WITH_AS(CheckZeroPartition({}, settings),
                       "--strategy: expected no --lora with zero3", Error);
}

TEST_CASE("what is not known of it is refused") {
  const auto error = [](TrainingSettings settings) -> std::string {
    settings.ranks.strategy = Strategy::kZero2;
    try {
      CheckZeroPartition({}, settings);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(error({.precision = Precision::kBf16}) == "");
  CHECK(error({.precision = Precision::kAmpBf16}) ==
        "--strategy: expected -p bf16 or fp32 with zero2, which keeps parameters in 32 bits beside "
        "those of the model, found amp-bf16");
  CHECK(error({.clip_grad = true}) == "--strategy: expected no --clip-grad with zero2");
}

struct Truth {
  Strategy strategy;
  int64_t bucket;
  int64_t world;
  Optimizer optimizer;
  int64_t exact;
  int64_t micro_batches = 1;
  bool overlaps = false;
};

// What torch 2.11's allocator counted at the second step's peak under DeepSpeed 0.19.8
// (benchmarks/ways/deepspeed_zero.py).
constexpr Truth kTruths[] = {
    {Strategy::kZero1, 1'000'000, 2, Optimizer::kAdamW, 429'496'496},
    {Strategy::kZero1, 500'000'000, 8, Optimizer::kAdamW, 1'202'847'352},
    {Strategy::kZero1, 5'000'000, 8, Optimizer::kSgd, 179'262'184},
    {Strategy::kZero1, 5'000'000, 8, Optimizer::kAdamW, 221'401'848, 2},
    {Strategy::kZero1, 500'000'000, 8, Optimizer::kAdamW, 2'211'381'348, 2, true},
    {Strategy::kZero1, 20'000'000, 1, Optimizer::kSgd, 488'288'440, 2},
    {Strategy::kZero2, 1'000'000, 2, Optimizer::kAdamW, 429'496'496},
    {Strategy::kZero2, 500'000'000, 8, Optimizer::kAdamW, 1'202'814'582},
    {Strategy::kZero2, 5'000'000, 8, Optimizer::kAdamW, 177'598'952},
    {Strategy::kZero2, 5'000'000, 8, Optimizer::kSgd, 144'013'784},
    {Strategy::kZero2, 20'000'000, 1, Optimizer::kAdamW, 756'969'736},
    {Strategy::kZero2, 500'000'000, 8, Optimizer::kAdamW, 1'211'211'382, 2},
    {Strategy::kZero2, 500'000'000, 8, Optimizer::kAdamW, 2'202'814'582, 1, true},
    {Strategy::kZero2, 20'000'000, 1, Optimizer::kSgd, 488'288'440, 2},
    {Strategy::kZero2, 5'000'000, 8, Optimizer::kSgd, 144'013'784, 1, true}};

TEST_CASE("peaks are those that DeepSpeed has, scalars aside") {
  const std::string text = ResidualNet();
  for (const Truth& truth : kTruths) {
    CAPTURE(std::string(ToString(truth.strategy)));
    CAPTURE(truth.bucket);
    CAPTURE(truth.world);
    EstimateRequest request;
    request.binding.batch = 4;
    request.settings.precision = Precision::kBf16;
    request.settings.optimizer = truth.optimizer;
    request.settings.in_place = InPlaceUse::kNever;
    request.settings.ranks = {.strategy = truth.strategy,
                              .world = truth.world,
                              .reduce_bucket = truth.bucket,
                              .overlap_comm = truth.overlaps};
    request.settings.loop.accumulate = truth.micro_batches;
    const Graph file = ParseGraph(text);
    const Estimate estimate = MakeEstimate(file, request);
    const int64_t off = estimate.steps[1].peak.exact_bytes - truth.exact;
    CAPTURE(off);
    CHECK(off <= 2);  // the loss, which no name holds there
    CHECK(off > -4096);
  }
}

}  // namespace
}  // namespace onnxfit::zero_partition_test

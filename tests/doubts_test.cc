#include "estimator/fit/doubts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/fit/estimate.h"
#include "estimator/fit/max_batch.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::doubts_test {
namespace {

Estimate OfT5(const TrainingSettings& settings) {
  const std::string path = std::string(kSourceDir) + "/models/t5_small.script.onnx";
  return MakeEstimate(LoadGraph(path), {.binding = {.batch = 2}, .settings = settings});
}

// In eval nothing drops out, and whether a head is tied remains.
TEST_CASE("what the file leaves open is answered both ways") {
  const Estimate guessed = OfT5({});
  REQUIRE(guessed.range.has_value());
  CHECK(guessed.range->high.flags == "--assume tied-head=no");  // dropout moves no peak here
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

TEST_CASE("sums of parameters are a guess where a head may be tied") {
  const auto basis = [](const TrainingSettings& settings, std::string_view kind) {
    const Estimate estimate = OfT5(settings);
    return std::ranges::find(estimate.breakdown, kind, &BreakdownRow::kind)->basis;
  };
  CHECK(basis({}, "parameters") == Basis::kAssumed);
  CHECK(basis({}, "inputs") == Basis::kExact);
  CHECK(basis({.assumed = {.tied_head = true}}, "parameters") == Basis::kExact);
  CHECK(basis({.assumed = {.tied_head = true}}, "gradients") == Basis::kExact);
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
  CHECK(warning->text.starts_with("guessed where the file does not say: "));
  CHECK(warning->text.find(" MiB more with --assume tied-head=no") != std::string::npos);
}

TEST_CASE("the warning says by how much each reading differs from the guess") {
  const auto told = [](const DeviceRange& range) { return RangeWarning(range, 100 * kMiB).text; };
  CHECK(told({{100 * kMiB, ""}, {140 * kMiB, "--dropout 0.1"}}) ==
        "guessed where the file does not say: 40.0 MiB more with --dropout 0.1");
  CHECK(told({{98 * kMiB, "--in-place known"}, {100 * kMiB, ""}}) ==
        "guessed where the file does not say: 2.00 MiB less with --in-place known");
  CHECK(told({{60 * kMiB, "--dropout 0"}, {140 * kMiB, "--dropout 0.1"}}) ==
        "guessed where the file does not say: 40.0 MiB more with --dropout 0.1, 40.0 MiB less with "
        "--dropout 0");
}

// What is reserved need not grow with what tensors take: the worse reading may be the low end.
TEST_CASE("each end of a range has its own flags, whichever is higher") {
  const Graph file = LoadGraph(std::string(kSourceDir) + "/models/branch_concat.onnxtxt");
  const auto estimate = [&](InPlaceUse in_place) {
    return MakeEstimate(file,
                        {.binding = {.batch = 32},
                         .settings = {.in_place = in_place, .batch_norm = BatchNormUse::kKeep}});
  };
  const Estimate guessed = estimate(InPlaceUse::kAuto);
  const Estimate known = estimate(InPlaceUse::kKnown);
  REQUIRE(known.device_bytes < guessed.device_bytes);
  REQUIRE(guessed.range);
  CHECK(guessed.range->low.flags == "--in-place known");
  CHECK(guessed.range->low.device_bytes == known.device_bytes);
  CHECK(guessed.range->high.flags.empty());
  CHECK(guessed.range->high.device_bytes == guessed.device_bytes);
}

TEST_CASE("flags that change nothing are not told") {
  const Graph file = LoadGraph(std::string(kSourceDir) + "/models/vgg_small.onnxtxt");
  const auto at = [&](const TrainingSettings& settings) {
    return MakeEstimate(file, {.binding = {.batch = 2}, .settings = settings});
  };
  const Estimate guessed = at({});
  REQUIRE(at({.in_place = InPlaceUse::kKnown}).device_bytes == guessed.device_bytes);
  REQUIRE(guessed.range.has_value());
  CHECK(guessed.range->high.flags == "--batch-norm restore");
  CHECK(guessed.range->high.device_bytes ==
        at({.batch_norm = BatchNormUse::kRestore}).device_bytes);
}

TEST_CASE("files that lose nothing leave nothing open") {
  const std::string path = std::string(kSourceDir) + "/models/resnet18.train.onnx";
  CHECK_FALSE(MakeEstimate(LoadGraph(path), {.binding = {.batch = 2}}).range.has_value());
}

// --- The worse reading -----------------------------------------------------------------------

Graph Mlp() { return LoadGraph(std::string(kSourceDir) + "/models/mlp_2000.onnxtxt"); }

EstimateRequest MlpAt(int64_t batch, InPlaceUse in_place, const char* card) {
  return {.binding = {.batch = batch},
          .settings = {.optimizer = Optimizer::kAdam, .in_place = in_place},
          .targets = {MakeTarget({.card = FindCard(card)})}};
}

// An activation between convolutions, of more than both read and make.
constexpr char kConvolutions[] = R"(
  net (float[N, 3, 64, 64] x) => (float[N, 3, 64, 64] y)
  < float[64, 3, 1, 1] w1 = ["location": "none"], float[3, 64, 1, 1] w2 = ["location": "none"] > {
    a = Conv (x, w1) b = Relu (a) y = Conv (b, w2)
  })";

EstimateRequest ConvolutionsAt(std::optional<int64_t> batch, InPlaceUse in_place,
                               const Target& target) {
  return {.binding = {.batch = batch},
          .settings = {.mode = Mode::kEval, .in_place = in_place},
          .targets = {target}};
}

Judgement Judged(int64_t batch, InPlaceUse in_place, const char* card = "p100") {
  return MakeEstimate(Mlp(), MlpAt(batch, in_place, card)).targets[0].judgement;
}

// nn.ReLU() writes over nothing unless it is told to: PyTorch runs 466,719 of these on that card
// and dies at 480,000.
TEST_CASE("activations of perceptrons leave nothing open") {
  const Judgement open = Judged(480000, InPlaceUse::kAuto);
  CHECK(open.verdict == Verdict::kOom);
  CHECK_FALSE(open.guessed.has_value());
  CHECK(Judged(480000, InPlaceUse::kAlways).verdict != Verdict::kOom);
}

TEST_CASE("a verdict takes the worse of what the file leaves open") {
  const auto judged = [](InPlaceUse in_place, const Target& target) {
    const EstimateRequest request = ConvolutionsAt(64, in_place, target);
    return MakeEstimate(ParseGraph(kConvolutions), request).targets[0].judgement;
  };
  const Target large = MakeTarget({.memory_bytes = int64_t{1} << 40});
  const int64_t low = judged(InPlaceUse::kAlways, large).used_bytes;
  const int64_t high = judged(InPlaceUse::kNever, large).used_bytes;
  REQUIRE(low < high);
  const Target between = MakeTarget({.memory_bytes = (low + high) / 2});
  const Judgement open = judged(InPlaceUse::kAuto, between);
  CHECK(open.verdict == Verdict::kOom);
  CHECK(open.reading == "--in-place known");
  REQUIRE(open.guessed.has_value());
  const Judgement guessed = judged(InPlaceUse::kAlways, between);
  CHECK(open.guessed->verdict == guessed.verdict);
  CHECK(open.guessed->used_bytes == guessed.used_bytes);
  CHECK(guessed.verdict != Verdict::kOom);
  CHECK_FALSE(guessed.guessed.has_value());
  const Judgement never = judged(InPlaceUse::kNever, between);
  CHECK(never.used_bytes == open.used_bytes);
  CHECK_FALSE(never.guessed.has_value());
}

TEST_CASE("the estimate keeps the likeliest and shows the range") {
  const auto estimate = [](InPlaceUse in_place) {
    const std::string path = std::string(kSourceDir) + "/models/branch_concat.onnxtxt";
    return MakeEstimate(LoadGraph(path),
                        {.binding = {.batch = 16},
                         .settings = {.in_place = in_place, .batch_norm = BatchNormUse::kKeep}});
  };
  const Estimate open = estimate(InPlaceUse::kAuto);
  const Estimate always = estimate(InPlaceUse::kAlways);
  const Estimate never = estimate(InPlaceUse::kNever);
  CHECK(open.device_bytes == always.device_bytes);
  REQUIRE(open.range.has_value());
  CHECK(open.range->low.device_bytes == always.device_bytes);
  CHECK(open.range->high.device_bytes == never.device_bytes);
  CHECK(open.range->high.flags == "--in-place known");
  CHECK(never.device_bytes > always.device_bytes);
}

TEST_CASE("the largest batch is that of the worse reading, and says what the guess would be") {
  const auto largest = [](InPlaceUse in_place) {
    const EstimateRequest request =
        ConvolutionsAt(std::nullopt, in_place, MakeTarget({.card = FindCard("p100")}));
    return FindMaxBatches(ParseGraph(kConvolutions), request, request.targets)[0];
  };
  const MaxBatch open = largest(InPlaceUse::kAuto);
  const MaxBatch always = largest(InPlaceUse::kAlways);
  CHECK(open.batch == largest(InPlaceUse::kNever).batch);
  CHECK(open.guessed_batch == always.batch);
  CHECK(open.reading == "--in-place known");
  CHECK_FALSE(always.guessed_batch.has_value());
}

TEST_CASE("the largest batch of perceptrons is what PyTorch runs") {
  EstimateRequest request = MlpAt(1, InPlaceUse::kAuto, "p100");
  request.binding.batch.reset();
  const MaxBatch largest = FindMaxBatches(Mlp(), request, request.targets)[0];
  CHECK(largest.batch == 466719);
  CHECK_FALSE(largest.guessed_batch.has_value());
}

TEST_CASE("of two readings the one is taken that fails, then what takes more") {
  const auto judgement = [](Verdict verdict, int64_t used) {
    Judgement j;
    j.verdict = verdict;
    j.used_bytes = used;
    return j;
  };
  const Judgement fits = judgement(Verdict::kFits, 100);
  CHECK(WorseOf(fits, judgement(Verdict::kFits, 99), "x").reading.empty());
  CHECK(WorseOf(fits, fits, "x").reading.empty());
  CHECK(WorseOf(fits, judgement(Verdict::kFits, 101), "x").reading == "x");
  CHECK(WorseOf(fits, judgement(Verdict::kOom, 99), "x").reading == "x");
  CHECK(WorseOf(judgement(Verdict::kOom, 99), fits, "x").verdict == Verdict::kOom);
}

}  // namespace
}  // namespace onnxfit::doubts_test

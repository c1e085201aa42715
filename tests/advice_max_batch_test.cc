// What would raise a largest batch.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/advise/advice.h"
#include "tests/advice_helpers.h"

namespace onnxfit::advice_max_batch_test {
namespace {

// The one to take.
int64_t LargestBatch(const Graph& file, const EstimateRequest& request, const Target& target) {
  const BatchLimits limits = {.detail = BatchDetail::kHeadline};
  return RecommendedOf(FindMaxBatches(file, request, {&target, 1}, limits)[0]).batch;
}

struct Row {
  std::string model;
  std::string asked;
  int64_t bytes;
};

const Row kRows[] = {
    {"resnet18.train.onnx", "", 1 * kGiB},
    {"resnet50.train.onnx", "-p amp-bf16 -o adam", 2 * kGiB},
    {"unet.train.onnx", "--in-place never", 1 * kGiB},
    {"t5_small.script.onnx", "-o sgd --optimizer-impl fused", 1 * kGiB},
    {"mobilenet_v2.script.onnx", "--mode eval", 1 * kGiB},
    {"resnet18.train.onnx", "--shape x=4x3x128x128", 1 * kGiB},
};

TEST_CASE("what is typed gives the batch that was said") {
  for (const Row& row : kRows) {
    CAPTURE(row.model);
    CAPTURE(row.asked);
    const Graph file = FileOf(row.model);
    const EstimateRequest asked = RequestFor(row.asked);
    const int64_t batch = LargestBatch(file, asked, Memory(row.bytes));
    const auto all = ToRaise(file, asked, Memory(row.bytes));
    CHECK(all.size() >= 3);
    for (const Advice& advice : all) {
      CAPTURE(advice.flags);
      REQUIRE(advice.max_batch);
      CHECK(advice.effect == Effect::kEnough);
      CHECK(*advice.max_batch * advice.accumulate > batch);
      if (advice.flags.starts_with("--gpu ")) {
        const Target card = CardCalled(advice.flags.substr(std::string("--gpu ").size()));
        // What cuDNN plans for a card changes with the batch, and advice asks for a few alone.
        const int64_t largest = LargestBatch(file, asked, card);
        CHECK(*advice.max_batch <= largest);
        CHECK(*advice.max_batch >= largest - largest / 50);
      } else {
        EstimateRequest typed = RequestFor(row.asked, advice.flags);
        if (advice.flags.find("--shape") == std::string::npos) typed.binding.batch.reset();
        CHECK(LargestBatch(file, typed, Memory(row.bytes)) == *advice.max_batch);
      }
    }
  }
}

TEST_CASE("what is said FITS, where the batch to take does") {
  const Graph file = FileOf("resnet18.train.onnx");
  const Target card = CardCalled("rtx3060");
  const MaxBatch answer = FindMaxBatches(file, {}, {&card, 1})[0];
  REQUIRE(answer.judgement.verdict == Verdict::kTight);
  REQUIRE(FittingOf(answer).batch > 0);
  const auto all = AdviseMaxBatch(file, {}, answer);
  CHECK(all.size() >= 3);
  for (const Advice& advice : all) {
    CAPTURE(advice.flags);
    if (advice.flags.starts_with("--gpu ")) continue;  // another card's
    EstimateRequest typed = RequestFor("", advice.flags);
    typed.binding.batch = *advice.max_batch;
    typed.settings.device = card.device;
    CHECK(Judged(file, typed, card).judgement.verdict == Verdict::kFits);
  }
}

TEST_CASE("what does not raise it by a twentieth has no line, unless it is free") {
  const Graph file = FileOf("resnet50.train.onnx");
  const Target card = CardCalled("t4");
  const int64_t batch = LargestBatch(file, {}, card);
  const auto all = ToRaise(file, {}, card);
  // Moments of 195 MiB are two samples of 169 at most.
  CHECK(LargestBatch(file, RequestFor("-o sgd"), card) >= batch);
  CHECK(FindAdvice(all, "-o sgd") == nullptr);
  CHECK(FindAdvice(all, "-p amp-fp16") != nullptr);
  for (const Advice& advice : all) {
    CAPTURE(advice.flags);
    const bool is_cheap = advice.cost_class == CostClass::kFree || advice.accumulate > 1;
    CHECK(*advice.max_batch * advice.accumulate >= batch + (is_cheap ? 1 : batch / 20));
  }
  // The same where the answer does not say what a sample takes.
  const BatchLimits limits = {.detail = BatchDetail::kHeadline};
  const MaxBatch brief = FindMaxBatches(file, {}, {&card, 1}, limits)[0];
  REQUIRE(brief.per_sample_bytes == 0);
  CHECK(Listed(AdviseMaxBatch(file, {}, brief)) == Listed(all));
}

TEST_CASE("not even one sample: what makes one run, and why mixed precision does not") {
  const Graph file = ParseGraph(kHeavy);
  const Target card = Memory(500 * kMiB);
  const auto all = ToRaise(file, {}, card);
  CHECK(LargestBatch(file, {}, card) == 0);
  const Advice* sgd = FindAdvice(all, "-o sgd");
  REQUIRE(sgd != nullptr);
  CHECK(*sgd->max_batch > 0);
  CHECK(FindAdvice(all, "--optimizer-impl fused") == nullptr);  // 640 MiB are state
  REQUIRE(FindAdvice(all, "-p amp-bf16") != nullptr);
  CHECK(FindAdvice(all, "-p amp-bf16")->why.starts_with("amp-bf16 does not help: 638.5 MiB"));
  for (const Advice& advice : all) CHECK(advice.accumulate == 1);
}

TEST_CASE("not even one sample, and no single change makes one run") {
  const Graph file = ParseGraph(kHeavy);
  const Target card = Memory(Needs(file, RequestFor("-b 1 -o sgd -p bf16")) + 16 * kMiB);
  const auto all = ToRaise(file, {}, card);
  CHECK(all[0].flags == "-o paged-adamw-32bit -p bf16");
  CHECK(*all[0].max_batch == LargestBatch(file, RequestFor("", all[0].flags), card));
  CHECK(all[1].cost_class == CostClass::kMoney);
}

TEST_CASE("not even one sample: what fits then, and several cards") {
  const Graph file = FileOf("gpt2.dynamo.onnx");
  const Target card = Memory(1'800 * kMiB);
  REQUIRE(LargestBatch(file, {}, card) == 0);
  const auto all = ToRaise(file, {}, card);
  const Advice* sharded = FindAdvice(all, "--strategy fsdp --world 2");
  REQUIRE(sharded != nullptr);
  for (const Advice& advice : all) {
    if (!advice.judgement) continue;
    CAPTURE(advice.flags);
    EstimateRequest typed = RequestFor("", advice.flags);
    typed.binding.batch = *advice.max_batch;
    const Judgement judgement = Judged(file, typed, card).judgement;
    CHECK(judgement.verdict != Verdict::kOom);
    CHECK(advice.judgement->verdict == judgement.verdict);
    CHECK(advice.judgement->used_bytes == judgement.used_bytes);
  }
}

TEST_CASE("where --max ends it there is nothing to raise") {
  const Graph file = FileOf("resnet18.train.onnx");
  const Target card = Memory(1 * kGiB);
  const BatchLimits limits = {.most = 4};
  const MaxBatch answer = FindMaxBatches(file, {}, {&card, 1}, limits)[0];
  REQUIRE(answer.is_limited);
  CHECK(AdviseMaxBatch(file, {}, answer, limits).empty());
}

TEST_CASE("advice keeps to the multiples that were asked for") {
  const Graph file = FileOf("resnet18.train.onnx");
  const Target card = Memory(1 * kGiB);
  const BatchLimits limits = {.multiple_of = 8};
  const MaxBatch answer = FindMaxBatches(file, {}, {&card, 1}, limits)[0];
  const auto all = AdviseMaxBatch(file, {}, answer, limits);
  CHECK(!all.empty());
  for (const Advice& advice : all) CHECK(*advice.max_batch % 8 == 0);
}

TEST_CASE("why less than the largest may be better") {
  CHECK(WhyNotLargest(Memory(1 * kGiB), Mode::kTrain) ==
        "A little less is safer: drivers and contexts differ by up to a few hundred MiB, and on a "
        "full card retries take time. Very large batches generalise worse unless the learning "
        "rate is tuned along.");
  const ContextBytes context = CardCalled("t4").device.context;
  CHECK(WhyNotLargest(Memory(1 * kGiB), Mode::kEval).ends_with("retries take time."));
  CHECK(
      WhyNotLargest(CardCalled("t4"), Mode::kEval).find(FormatBytes(context.high - context.low)) !=
      std::string::npos);
}

// Rough runs are off by thousands of samples there; once each of them was tried, for minutes.
TEST_CASE("what raises a batch of millions is found in few runs" * doctest::timeout(60)) {
  const Graph file = FileOf("dropout_mlp.onnxtxt");
  const auto all = ToRaise(file, {}, Memory(8 * kGiB));
  CHECK_FALSE(all.empty());
}

// The batch of whole inputs.
TEST_CASE("inputs that are bound as a whole follow the batch") {
  const Graph file = FileOf("resnet18.train.onnx");
  const Target card = Memory(1 * kGiB);
  const int64_t batch = LargestBatch(file, {}, card);
  CHECK(LargestBatch(file, RequestFor("--shape x=4x3x224x224"), card) == batch);
  CHECK(LargestBatch(file, RequestFor("-b 4 --shape x=4x3x224x224"), card) == batch);
  CHECK(LargestBatch(file, RequestFor("--shape x=1x3x224x224"), card) == batch);
  const Graph recurrent = ParseGraph(R"(net (float[T, N, 4] x) => (float[T, 1, N, 8] y)
    < float[1, 32, 4] W = ["location": "none"], float[1, 32, 8] R = ["location": "none"] > {
      y = LSTM <hidden_size = 8> (x, W, R)
    })");
  const int64_t free = LargestBatch(recurrent, RequestFor("--loss mse --dim T=3"), card);
  CHECK(LargestBatch(recurrent, RequestFor("--loss mse --shape x=3x3x4"), card) == free);
}

}  // namespace
}  // namespace onnxfit::advice_max_batch_test

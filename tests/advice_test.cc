// What would make a run fit its card.
#include "estimator/advise/advice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/advice_helpers.h"
#include "tests/blocks_with_norms.h"
#include "tests/shared_layers_helpers.h"

namespace onnxfit::advice_test {
namespace {

// A card that holds the changed run and not the one that was asked for.
Target Between(const Graph& file, const EstimateRequest& asked, const EstimateRequest& changed) {
  const int64_t large = Needs(file, asked);
  const int64_t small = Needs(file, changed);
  REQUIRE(small + 8 * kMiB < large);  // or there is nothing between
  return Memory(small + (large - small) / 2);
}

// Logits of [N, 30000].
constexpr char kWide[] = R"(
  net (float[N, 16] x) => (float[N, 30000] y)
  < float[16, 30000] head = ["location": "none"] > { y = MatMul (x, head) })";

constexpr char kWideRelu[] = R"(
  net (float[N, 16] x) => (float[N, 10] y)
  < float[16, 30000] wide = ["location": "none"], float[30000, 10] head = ["location": "none"] > {
    a = MatMul (x, wide)
    b = Relu (a)
    y = MatMul (b, head)
  })";

// Of more elements than DeepSpeed's stage 3 keeps whole for backward.
constexpr char kHuge[] = R"(
  net (float[N, 16384] x) => (float[N, 16384] y)
  < float[16384, 16384] a = ["location": "none"], float[16384, 16384] b = ["location": "none"],
    float[16384, 16384] c = ["location": "none"], float[16384, 16384] d = ["location": "none"],
    float[16384, 16384] e = ["location": "none"], float[16384, 16384] f = ["location": "none"],
    float[16384, 16384] g = ["location": "none"], float[16384, 16384] h = ["location": "none"] > {
    i = MatMul (x, a) j = MatMul (i, b) k = MatMul (j, c) l = MatMul (k, d)
    m = MatMul (l, e) n = MatMul (m, f) o = MatMul (n, g) y = MatMul (o, h)
  })";

// Of 1024 features, and 4096 within blocks, whose layers ranks can share.
std::string WideBlocks() {
  const std::string wide =
      AllReplaced(AllReplaced(kBlocksWithNorms, "64", "1024"), "1024, 128]", "1024, 4096]");
  return AllReplaced(wide, "[128, 1024]", "[4096, 1024]");
}

struct Row {
  std::string model;    // a text, or a file's name
  std::string asked;    // flags with which it does not fit
  std::string advised;  // flags of the advice that makes it fit
  std::string without;  // flags with which there is no such advice
};

Graph GraphOf(const std::string& model) {
  return model.find('{') == std::string::npos ? FileOf(model) : ParseGraph(model);
}

// "without --ema" takes a flag away.
EstimateRequest Following(const std::string& asked, const std::string& advised) {
  constexpr std::string_view kWithout = "without ";
  if (!advised.starts_with(kWithout)) return RequestFor(asked, advised);
  std::string left = asked;
  const std::string flag = advised.substr(kWithout.size());
  return RequestFor(left.erase(left.find(flag), flag.size()));
}

const Row kRows[] = {
    {kHeavy, "-b 8", "--optimizer-impl fused", "-b 8 --optimizer-impl fused"},
    {kHeavy, "-b 8 -o rmsprop", "--optimizer-impl for-loop", "-b 8 -o adamw"},
    {kHeavy, "-b 8 --optimizer-impl fused --zero-grad keep", "--zero-grad before-forward",
     "-b 8 --optimizer-impl fused"},
    {"gpt2.dynamo.onnx", "-b 8 --attention eager", "--attention sdpa", "-b 8"},
    {kWideRelu, "-b 4096 --mode eval --in-place never", "--in-place always", "-b 4096 --mode eval"},
    {"gpt2.dynamo.onnx", "-b 8", "--checkpoint auto", "-b 8 --checkpoint *.h.0"},
    {"gpt2.dynamo.onnx", "-b 8", "--checkpoint every=2", "-b 8 --checkpoint *.h.0"},
    {kHeavy, "-b 8", "--optimizer-in-backward", "-b 8 --clip-grad"},
    {kHeavy, "-b 8", "--optimizer-in-backward", "-b 8 --accumulate 2"},
    {kHeavy, "-b 8", "--optimizer-in-backward", "-b 8 --strategy ddp"},
    {kHeavy, "-b 8", "-o paged-adamw-32bit", "-b 8 -o lion"},
    {kHeavy, "-b 8", "-o paged-adamw-8bit", "-b 8 -o sgd"},
    {kHeavy, "-b 8 -o lion", "-o paged-lion-32bit", "-b 8"},
    {kHeavy, "-b 8 -o lion", "-o lion-8bit", "-b 8"},
    {"gpt2.dynamo.onnx", "-b 1", "--lora 8", "-b 1 --freeze *.h.0.*"},
    {"gpt2.dynamo.onnx", "-b 1", "--lora 8 --quantize nf4", "-b 1 --lora 8"},
    {"gpt2.dynamo.onnx", "-b 1 --lora 8", "--quantize nf4", "-b 1"},
    {"gpt2.dynamo.onnx", "-b 1 --mode eval", "--quantize nf4", "-b 1"},
    {"gpt2.dynamo.onnx", "-b 1", "--strategy fsdp --world 2", "-b 1 --strategy ddp"},
    {kHeavy, "-b 8 --strategy ddp", "--ddp-views", "-b 8"},
    {kHeavy, "-b 8 --strategy ddp --world 4", "--strategy zero-redundancy",
     "-b 8 --strategy ddp --world 1"},
    {"gpt2.dynamo.onnx", "-b 1 --strategy zero-redundancy --world 4", "--strategy fsdp", "-b 1"},
    {"gpt2.dynamo.onnx", "-b 1 --strategy zero2 -p bf16", "--reduce-bucket 50000000",
     "-b 1 --strategy zero2 -p bf16 --reduce-bucket 10000000"},
    {"gpt2.dynamo.onnx", "-b 1 --strategy zero1 -p bf16 --accumulate 2 --overhead 0",
     "--strategy zero2", "-b 1 --strategy zero2 -p bf16"},
    {kHuge, "-b 1 --strategy zero2 -p bf16", "--strategy zero3", "-b 1 --strategy zero3 -p bf16"},
    {kHuge, "-b 1 --strategy zero2 -p bf16", "--zero-offload",
     "-b 1 --strategy zero2 -p bf16 --zero-offload"},
    {"gpt2.dynamo.onnx", "-b 8 --strategy fsdp --world 2", "--fsdp-offload",
     "-b 8 --strategy fsdp --world 2 -p amp-fp16"},
    {kLong, "-b 16 --dim S=512 --prefetch 40", "--prefetch 0", "-b 16 --dim S=512"},
    {kWide, "-b 4096 --eval-batch 4096 --eval-keep 8", "--eval-keep 1",
     "-b 4096 --eval-batch 4096"},
    {kWide, "-b 4096 --hold-outputs", "without --hold-outputs", "-b 4096"},
    {kHeavy, "-b 8 --ema", "without --ema", "-b 8"},
    {kHeavy, "-b 8", "-o adamw-8bit", "-b 8 -o adamw-8bit"},
    {kHeavy, "-b 8", "-o adafactor", "-b 8 -o sgd"},
    {kHeavy, "-b 8", "-o sgdm", "-b 8 -o sgdm"},
    {kHeavy, "-b 8", "-o sgd", "-b 8 --mode eval"},
    {kLong, "-b 16 --dim S=512 -p fp64", "-p fp32", "-b 16 --dim S=512"},
    {kLong, "-b 16 --dim S=512", "-p amp-bf16", "-b 16 --dim S=512 -p amp-fp16"},
    {kLong, "-b 16 --dim S=512", "-p bf16", "-b 16 --dim S=512 -p bf16"},
    {kHeavy, "-b 8", "--freeze 'first*' --freeze 'middle*' --freeze 'second*'",
     "-b 8 --freeze first"},
    {kLong, "-b 16 --dim S=512", "--dim S=256", "-b 16 --dim S=1"},
    {"resnet18.train.onnx", "-b 64", "--shape x=64x3x112x112", "-b 64 --shape x=64x3x12x12"},
    {"resnet18.train.onnx", "-b 64 --shape x=64x3x96x96", "--shape x=64x3x72x72", "-b 64"},
    {"resnet18.train.onnx", "-b 64 --mode eval", "-p bf16", "-b 64 --mode eval -p fp16"},
};

TEST_CASE("each change is advised where it helps, and not where it does not apply") {
  for (const Row& row : kRows) {
    CAPTURE(row.asked);
    CAPTURE(row.advised);
    const Graph file = GraphOf(row.model);
    const EstimateRequest asked = RequestFor(row.asked);
    const EstimateRequest followed = Following(row.asked, row.advised);
    const Target card = Between(file, asked, followed);
    const std::vector<Advice> all = AtBatch(file, asked, card);
    const Advice* advice = FindAdvice(all, row.advised);
    REQUIRE(advice != nullptr);
    CHECK(advice->effect == Effect::kEnough);
    CHECK(advice->saved_bytes > 0);
    CHECK(!advice->cost.empty());
    const Judgement typed = Judged(file, followed, card).judgement;
    REQUIRE(advice->judgement);
    CHECK(advice->judgement->verdict == typed.verdict);
    CHECK(advice->judgement->used_bytes == typed.used_bytes);
    const EstimateRequest without = RequestFor(row.without);
    const auto others = AtBatch(file, without, Memory(Needs(file, without) / 10 * 9));
    CHECK(!others.empty());
    CHECK(FindAdvice(others, row.advised) == nullptr);
  }
}

TEST_CASE("a run that fits needs no advice, one that is tight is to fit") {
  const Graph file = ParseGraph(kHeavy);
  const EstimateRequest request = RequestFor("-b 8");
  const int64_t needed = Needs(file, request);
  CHECK(AtBatch(file, request, Memory(needed + 16 * kMiB)).empty());
  REQUIRE(Judged(file, request, Memory(needed)).judgement.verdict == Verdict::kTight);
  const auto all = AtBatch(file, request, Memory(needed));
  REQUIRE(FindAdvice(all, "--optimizer-impl fused") != nullptr);
  CHECK(FindAdvice(all, "--optimizer-impl fused")->judgement->verdict == Verdict::kFits);
  for (const Advice& advice : all) {
    if (advice.effect != Effect::kEnough) continue;
    CHECK(advice.judgement->verdict == Verdict::kFits);
  }
}

// --- The batch ----------------------------------------------------------------------------

// Of its parameters most are in the last module.
TEST_CASE("what freezing leaves trained is said as it is") {
  const Graph file = FileOf("vgg16.script.onnx");
  const EstimateRequest asked = RequestFor("-b 32");
  const auto all =
      AtBatch(file, asked, Between(file, asked, RequestFor("-b 32 --freeze features*")));
  const Advice* frozen = FindAdvice(all, "--freeze 'features*'");
  REQUIRE(frozen != nullptr);
  CHECK(frozen->change == "all but model.classifier frozen");
  CHECK(frozen->cost == "89.4% of the parameters are trained");
}

TEST_CASE("the asked samples are taken in the largest parts that run") {
  const Graph file = ParseGraph(kLong);
  const EstimateRequest asked = RequestFor("-b 48 --dim S=512");
  const EstimateRequest parts = RequestFor("-b 12 --dim S=512 --accumulate 4");
  const Target card = Memory(Needs(file, parts) + 10 * kMiB);
  const auto all = AtBatch(file, asked, card);
  const Advice* advice = FindAdvice(all, "-b 12 --accumulate 4");
  REQUIRE(advice != nullptr);
  CHECK(advice->effect == Effect::kEnough);
  CHECK(advice->judgement->used_bytes == Judged(file, parts, card).judgement.used_bytes);
  CHECK(advice->cost == "the same samples a step, in smaller passes");
  // 16 of them are the next part, and too many.
  const EstimateRequest larger = RequestFor("-b 16 --dim S=512 --accumulate 3");
  CHECK(Judged(file, larger, card).judgement.verdict == Verdict::kOom);
}

// A flag that is refused is no advice.
TEST_CASE("all that is advised can be typed") {
  const Graph file = ParseGraph(kWide);
  const std::string asked =
      "-b 8192";  // 8192 passes of one sample are more than --accumulate takes
  for (const int64_t mebibytes : {30, 40, 60, 200}) {
    CAPTURE(mebibytes);
    for (const Advice& advice : AtBatch(file, RequestFor(asked), Memory(mebibytes * kMiB))) {
      CAPTURE(advice.flags);
      if (!advice.flags.starts_with("--gpu")) CHECK_NOTHROW(RequestFor(asked, advice.flags));
    }
  }
}

// A kept program is run with other optimizers, which ranks that share layers refuse.
TEST_CASE("all that is advised to ranks that share layers can be typed") {
  const Graph file = ParseGraph(WideBlocks());
  const std::string asked = "-b 8 --tensor-parallel 2";
  for (const int64_t mebibytes : {60, 100, 140, 160, 180}) {
    CAPTURE(mebibytes);
    for (const Advice& advice : AtBatch(file, RequestFor(asked), Memory(mebibytes * kMiB))) {
      CAPTURE(advice.flags);
      if (!advice.flags.starts_with("--gpu")) CHECK_NOTHROW(RequestFor(asked, advice.flags));
    }
  }
}

TEST_CASE("ranks that share layers have a card each") {
  const auto all =
      AtBatch(ParseGraph(WideBlocks()), RequestFor("-b 8 --tensor-parallel 2"), Memory(160 * kMiB));
  const auto sharded = std::ranges::find(all, "--strategy fsdp --world 4", &Advice::flags);
  REQUIRE(sharded != all.end());
  CHECK(sharded->change == "8 such cards that share the model");
}

TEST_CASE("further micro-batches need no more than three") {
  for (const char* name : {"resnet18.train.onnx", "t5_small.script.onnx", "unet.train.onnx"}) {
    CAPTURE(name);
    const Graph file = FileOf(name);
    EstimateRequest request = RequestFor("-b 4 --accumulate 3");
    const int64_t of_three = Needs(file, request);
    request.settings.loop.accumulate = 9;
    CHECK(Needs(file, request) == of_three);
  }
}

TEST_CASE("what accumulates already, does so in smaller parts") {
  const Graph file = FileOf("resnet18.train.onnx");
  const EstimateRequest asked = RequestFor("-b 64 --accumulate 2");
  const Target card = Between(file, asked, RequestFor("-b 32 --accumulate 4"));
  const auto all = AtBatch(file, asked, card);
  const Advice* advice = FindAdvice(all, "-b 32 --accumulate 4");
  REQUIRE(advice != nullptr);
  CHECK(advice->cost == "the same samples a step, in smaller passes; batch norms see 32 of them");
}

TEST_CASE("inference takes smaller batches, and nothing of training") {
  const Graph file = FileOf("resnet18.train.onnx");
  const EstimateRequest asked = RequestFor("-b 64 --mode eval");
  const auto all = AtBatch(file, asked, Between(file, asked, RequestFor("-b 32 --mode eval")));
  const Advice* advice = FindAdvice(all, "-b 32");
  REQUIRE(advice != nullptr);
  CHECK(advice->cost == "2 calls instead of one");
  for (const Advice& a : all) {
    CAPTURE(a.flags);
    CHECK(a.flags.find("-o ") == std::string::npos);
    CHECK(a.flags.find("--freeze") == std::string::npos);
    CHECK(a.flags.find("--accumulate") == std::string::npos);
  }
}

TEST_CASE("a dimension that is the batch is no size") {
  const Graph file = ParseGraph(kHeavy);
  const auto all = AtBatch(file, RequestFor("--dim N=4096"), Memory(900 * kMiB));
  CHECK(FindAdvice(all, "--dim N=2048") == nullptr);
  CHECK(FindAdvice(all, "-b 1024 --accumulate 4") == nullptr);
}

// --- The allocator ------------------------------------------------------------------------

TEST_CASE("growing segments help where the pieces are the reason") {
  const Graph file = FileOf("resnet50.train.onnx");
  constexpr std::string_view kFlags = "--alloc-conf expandable_segments:True";
  const EstimateRequest request = RequestFor("-b 45");
  const Target card = Memory(4 * kGiB);
  REQUIRE(Judged(file, request, card).judgement.verdict == Verdict::kOom);
  const auto all = AtBatch(file, request, card);
  REQUIRE(FindAdvice(all, kFlags) != nullptr);
  CHECK(FindAdvice(all, kFlags)->effect == Effect::kEnough);
  CHECK(all[0].flags == kFlags);                                                   // free
  CHECK(FindAdvice(AtBatch(file, RequestFor("-b 64"), card), kFlags) == nullptr);  // tensors are
  const auto grown = AtBatch(file, RequestFor("-b 45 --alloc-conf expandable_segments:True"), card);
  CHECK(FindAdvice(grown, kFlags) == nullptr);
  const auto other = AtBatch(file, RequestFor("-b 45 --alloc-conf max_split_size_mb:512"), card);
  CHECK(FindAdvice(other, "--alloc-conf max_split_size_mb:512,expandable_segments:True") !=
        nullptr);
}

// --- Precision ----------------------------------------------------------------------------

TEST_CASE("cards before 8.0 have no bf16") {
  const Graph file = FileOf("resnet50.train.onnx");
  const EstimateRequest request = RequestFor("-b 256");
  const auto old = AtBatch(file, request, CardCalled("t4"));
  CHECK(FindAdvice(old, "-p amp-fp16") != nullptr);
  CHECK(FindAdvice(old, "-p amp-bf16") == nullptr);
  CHECK(FindAdvice(old, "-p bf16") == nullptr);
  CHECK(FindAdvice(old, "-p fp16") == nullptr);  // no way to train
  const auto in_bf16 =
      AtBatch(FileOf("gpt2.dynamo.onnx"), RequestFor("-b 64 -p amp-bf16"), CardCalled("t4"));
  CHECK(FindAdvice(in_bf16, "-p amp-fp16") != nullptr);
  const auto young = AtBatch(file, request, CardCalled("rtx3060"));
  CHECK(FindAdvice(young, "-p amp-bf16") != nullptr);
  CHECK(FindAdvice(young, "-p amp-fp16") == nullptr);
  const auto eval = AtBatch(file, RequestFor("-b 4096 --mode eval"), CardCalled("t4"));
  CHECK(FindAdvice(eval, "-p fp16") != nullptr);
}

TEST_CASE("where state dominates, mixed precision does not help, and why is said") {
  const Graph file = ParseGraph(kHeavy);
  const auto all = AtBatch(file, RequestFor("-b 8"), Memory(500 * kMiB));
  const Advice* advice = FindAdvice(all, "-p amp-bf16");
  REQUIRE(advice != nullptr);
  CHECK(advice->effect == Effect::kNone);
  // 4 bytes of 41 844 736 parameters four times, a fifth time while foreach updates.
  CHECK(advice->why ==
        "amp-bf16 does not help: 638.5 MiB of 814.4 MiB are parameters, gradients and optimizer "
        "state, which stay fp32");
  CHECK(&all.back() == advice);  // after what helps
}

TEST_CASE("where activations dominate, it does") {
  const auto all = AtBatch(ParseGraph(kLong), RequestFor("-b 16 --dim S=512"), Memory(200 * kMiB));
  const Advice* advice = FindAdvice(all, "-p amp-bf16");
  REQUIRE(advice != nullptr);
  CHECK(advice->why.empty());
}

TEST_CASE("where activations dominate and it is not enough, it is not said to be of no use") {
  const Graph file = ParseGraph(kLong);
  const EstimateRequest mixed = RequestFor("-b 16 --dim S=512 -p amp-bf16");
  const auto all =
      AtBatch(file, RequestFor("-b 16 --dim S=512"), Memory(Needs(file, mixed) - 64 * kMiB));
  const Advice* advice = FindAdvice(all, "-p amp-bf16");
  REQUIRE(advice != nullptr);
  CHECK(advice->effect == Effect::kSome);
  CHECK(advice->why.empty());
}

// --- Several, and other cards -------------------------------------------------------------

bool IsPair(const Advice& advice) {
  return advice.effect == Effect::kEnough && advice.change.find(" and ") != std::string::npos;
}

TEST_CASE("two changes together where none is enough") {
  const Graph file = ParseGraph(kHeavy);
  const EstimateRequest request = RequestFor("-b 8");
  const Target card = Memory(Needs(file, RequestFor("-b 8 -o sgd -p bf16")) + 16 * kMiB);
  const auto all = AtBatch(file, request, card);
  REQUIRE(IsPair(all[0]));
  CHECK(all[0].flags == "-o paged-adamw-32bit -p bf16");  // which are as small, and change less
  CHECK(all[0].cost_class == CostClass::kPrecision);
  const auto typed = Judged(file, RequestFor("-b 8", all[0].flags), card).judgement;
  CHECK(typed.verdict != Verdict::kOom);
  CHECK(all[0].judgement->used_bytes == typed.used_bytes);
  for (size_t i = 1; i < all.size(); ++i) CHECK(!IsPair(all[i]));
  // Where one is enough, there are no pairs.
  for (const Advice& a : AtBatch(file, request, Memory(700 * kMiB))) CHECK(!IsPair(a));
}

TEST_CASE("three where two are not enough") {
  const Graph file = ParseGraph(kHeavy);
  const std::string three =
      "-o paged-adamw-32bit -p bf16 --freeze 'first*' --freeze 'middle*' --freeze 'second*'";
  const EstimateRequest least = RequestFor("-b 8", three);
  const auto all = AtBatch(file, RequestFor("-b 8"), Memory(Needs(file, least) + 10 * kMiB));
  REQUIRE(all[0].effect == Effect::kEnough);
  CHECK(all[0].flags == three);
}

// Layers of three matrices of 12288 x 49152: 96 of them are of GPT-3's size.
std::string GptText(int layers = 96) {
  std::string weights;
  std::string nodes;
  std::string last = "x";
  for (int i = 0; i < layers; ++i) {
    const std::string l = std::to_string(i);
    weights += fmt::format(
        "{}float[12288, 49152] up{} = [\"location\": \"none\"],"
        "float[49152, 12288] down{} = [\"location\": \"none\"],"
        "float[12288, 49152] gate{} = [\"location\": \"none\"]",
        i == 0 ? "" : ", ", l, l, l);
    nodes +=
        fmt::format("u{} = MatMul ({}, up{}) g{} = MatMul ({}, gate{}) ", l, last, l, l, last, l);
    nodes += fmt::format("m{} = Mul (u{}, g{}) d{} = MatMul (m{}, down{}) ", l, l, l, l, l, l);
    last = "d" + l;
  }
  return fmt::format("net (float[N, 12288] x) => (float[N, 12288] y) < {} > {{ {} y = Relu ({}) }}",
                     weights, nodes, last);
}

// A card that holds weights in 16 bits and one layer's gradient.
TEST_CASE("together they cost less than what is enough alone") {
  const Graph file = ParseGraph(GptText(4));  // 7.2 billion parameters
  const EstimateRequest request = RequestFor("-b 1 --loss mse");
  const auto all = AtBatch(file, request, CardCalled("rtx4090"));
  REQUIRE(all[0].effect == Effect::kEnough);
  CHECK(all[0].cost_class == CostClass::kPrecision);
  CHECK(all[0].flags == "--optimizer-in-backward -o paged-adamw-32bit -p bf16");
  CHECK(all[0].change == "the optimizer in backward, an optimizer with less state and all in bf16");
  const EstimateRequest typed = RequestFor("-b 1 --loss mse", all[0].flags);
  CHECK(Judged(file, typed, CardCalled("rtx4090")).judgement.verdict == Verdict::kFits);
  // Without any of them it is too much.
  for (const char* two : {"--optimizer-in-backward -o paged-adamw-32bit",
                          "--optimizer-in-backward -p bf16", "-o paged-adamw-32bit -p bf16"}) {
    CAPTURE(two);
    const EstimateRequest less = RequestFor("-b 1 --loss mse", two);
    CHECK(Judged(file, less, CardCalled("rtx4090")).judgement.verdict == Verdict::kOom);
  }
}

TEST_CASE("what is known of a change's time is said with its source") {
  const Graph file = FileOf("gpt2.dynamo.onnx");
  const auto all = AtBatch(file, RequestFor("-b 8"), Memory(2 * kGiB));
  const Advice* half = FindAdvice(all, "--checkpoint every=2");
  const Advice* auto_ = FindAdvice(all, "--checkpoint auto");
  REQUIRE(half != nullptr);
  REQUIRE(auto_ != nullptr);
  CHECK(half->slower_percent == 17);
  CHECK(auto_->slower_percent == 33);
  CHECK(auto_->cost ==
        "torch.utils.checkpoint around blocks; about 33% more time (Chen et al. 2016, "
        "arXiv:1604.06174)");
  CHECK(half < auto_);  // where neither is enough, what takes less time comes first
}

// Moments of 285 MiB, all of which every step moves.
TEST_CASE("nobody's figure is quoted for moments that the card has no room for") {
  const auto all = AtBatch(ParseGraph(kHeavy), RequestFor("-b 8"), Memory(500 * kMiB));
  const Advice* paged = FindAdvice(all, "-o paged-adamw-32bit");
  REQUIRE(paged != nullptr);
  CHECK(paged->slower_percent == 0);
  CHECK(paged->cost.ends_with("; much more time"));
  CHECK(paged->cost_class == CostClass::kTuning);
}

// Batch 1 is TIGHT: none below it is played.
TEST_CASE("a card that the least batch fills gets advice") {
  const Graph file = FileOf("gpt2.dynamo.onnx");
  CHECK_FALSE(ToRaise(file, RequestFor("-o adafactor"), Memory(2 * kGiB)).empty());
}

TEST_CASE("DeepSpeed's batches are taken in parts") {
  const std::string asked = "-b 16 --dim S=512 --strategy zero2 --reduce-bucket 100000";
  const auto all = AtBatch(ParseGraph(kLong), RequestFor(asked), Memory(200 * kMiB));
  CHECK(std::ranges::any_of(all, [](const Advice& advice) {
    return advice.flags.find("--accumulate") != std::string::npos;
  }));
}

TEST_CASE("an optimizer in backward waits for no further part of the batch") {
  const Graph file = ParseGraph(kLong);
  const std::string asked = "-b 16 --dim S=512 --optimizer-in-backward";
  const auto all = AtBatch(file, RequestFor(asked), Memory(200 * kMiB));
  CHECK(!all.empty());
  for (const Advice& advice : all) {
    CAPTURE(advice.flags);
    CHECK(advice.flags.find("--accumulate") == std::string::npos);
  }
  for (const Advice& advice : ToRaise(file, RequestFor(asked), Memory(500 * kMiB))) {
    CHECK(advice.accumulate == 1);
  }
}

// transformers' Trainer takes adamw_torch_fused.
TEST_CASE("a loop that fuses its optimizer is not told to") {
  const Graph file = ParseGraph(kHeavy);
  const auto plain = AtBatch(file, RequestFor("-b 8"), Memory(400 * kMiB));
  const auto trainer = AtBatch(file, RequestFor("-b 8 --loop trainer"), Memory(400 * kMiB));
  CHECK(FindAdvice(plain, "--optimizer-impl fused") != nullptr);
  CHECK(FindAdvice(trainer, "--optimizer-impl fused") == nullptr);
}

TEST_CASE("nothing of it where nothing is enough: a larger card") {
  const auto all = AtBatch(ParseGraph(kHeavy), RequestFor("-b 8"), Memory(64 * kMiB));
  REQUIRE(all[0].effect == Effect::kEnough);
  CHECK(all[0].cost_class == CostClass::kMoney);
  CHECK(all[0].flags == "--gpu gtx1650");
  CHECK(all[0].cost == "GeForce GTX 1650, 3.81 GiB of memory");
}

TEST_CASE("the larger card is the smallest that runs it, and can") {
  const Graph file = FileOf("resnet50.train.onnx");
  const EstimateRequest request = RequestFor("-b 160");
  const auto all = AtBatch(file, request, CardCalled("rtx3060"));
  const Advice* card = nullptr;
  for (const Advice& advice : all) {
    if (advice.cost_class == CostClass::kMoney) card = &advice;
  }
  REQUIRE(card != nullptr);
  const Card& found = *FindCard(card->flags.substr(std::string("--gpu ").size()));
  CHECK(Judged(file, request, CardCalled(found.alias)).judgement.verdict != Verdict::kOom);
  for (const Card& other : Cards()) {
    const bool is_between = other.total_bytes > FindCard("rtx3060")->total_bytes &&
                            other.total_bytes < found.total_bytes;
    if (!is_between || other.family == "laptop" || other.shares_memory) continue;
    if (other.device.compute_capability < DefaultFramework().min_compute_capability) continue;
    CAPTURE(other.alias);
    CHECK(Judged(file, request, CardCalled(other.alias)).judgement.verdict == Verdict::kOom);
  }
}

const Card& LargerCardFor(const Graph& file, const EstimateRequest& request, const Target& card) {
  for (const Advice& advice : AtBatch(file, request, card)) {
    if (!advice.flags.starts_with("--gpu ")) continue;
    return *FindCard(std::string_view(advice.flags).substr(6));
  }
  throw std::out_of_range("no card is advised");
}

// A T4 would be the smallest that has the memory.
TEST_CASE("a run in bf16 gets a card that has it") {
  const Graph file = ParseGraph(kWide);
  const EstimateRequest request = RequestFor("-b 56000 -p bf16 --hold-outputs");
  const int64_t needs = Needs(file, request);
  REQUIRE(needs > 12'200 * kMiB);
  REQUIRE(needs < MakeTarget({.card = FindCard("t4")}).least_capacity_bytes() - 16 * kMiB);
  const Card& card = LargerCardFor(file, request, CardCalled("rtx3060"));
  CHECK(card.device.compute_capability >= 80);
}

// The operating system's share of a Jetson is none of a card's in a slot.
TEST_CASE("what a Jetson keeps for its system, another card does not") {
  const Graph file = ParseGraph(kWide);
  const EstimateRequest request = RequestFor("-b 16000");
  const int64_t needs = Needs(file, request);
  REQUIRE(needs > 7'000 * kMiB);
  REQUIRE(needs < 7'500 * kMiB);
  const Card& card = LargerCardFor(file, request, CardCalled("jetson-orin-nano"));
  CHECK(card.total_bytes < 8 * kGiB);
  const Target reserved =
      MakeTarget({.card = FindCard("rtx3050-6gb"), .reserved_for_others = 2 * kGiB});
  CHECK(LargerCardFor(file, request, reserved).total_bytes > 9 * kGiB);  // as much as there
}

// AdamW: 16 bytes a parameter and 4 more while foreach updates, shared by N; each card also puts
// a layer's largest tensor together.
TEST_CASE("what no single card holds, many do") {
  const Graph file = ParseGraph(GptText());
  constexpr int64_t kParameters = int64_t{96} * 3 * 12288 * 49152;
  const auto all = AtBatch(file, RequestFor("-b 1 --loss mse"), CardCalled("a100-80gb"));
  REQUIRE(!all.empty());
  const Advice& many = all.back();
  CHECK(many.effect == Effect::kNone);
  CHECK(many.change == "several cards");
  const auto count = [&](const char* card) {
    const int64_t each = CardCalled(card).capacity_bytes() - int64_t{12288} * 49152 * 4;
    return (kParameters * 20 + each - 1) / each;
  };
  CHECK(kParameters / 1'000'000'000 == 173);
  CHECK(many.why == fmt::format("no single card holds this: {} of b300, or {} of a100-80gb, would",
                                count("b300"), count("a100-80gb")));
  CHECK(many.cost ==
        "assumed: parameters, gradients and optimizer state shared evenly (ZeRO-3, FSDP), one "
        "sample on each");
}

TEST_CASE("a batch too large for every card is no model too large for one") {
  const auto all =
      AtBatch(ParseGraph(kLong), RequestFor("-b 1000000 --dim S=512"), CardCalled("t4"));
  CHECK(all.back().why == "no card that we know holds batch 1000000 at once");
}

// --- Order --------------------------------------------------------------------------------

TEST_CASE(
    "what is enough comes first, the cheapest first, then the fastest, then what saves most") {
  for (const int64_t mebibytes : {120, 400, 600, 700, 800}) {
    CAPTURE(mebibytes);
    const auto all = AtBatch(ParseGraph(kHeavy), RequestFor("-b 8"), Memory(mebibytes * kMiB));
    for (size_t i = 1; i < all.size(); ++i) {
      const Advice& a = all[i - 1];
      const Advice& b = all[i];
      CAPTURE(b.flags);
      CHECK(a.effect <= b.effect);
      if (a.effect != b.effect) continue;
      CHECK(a.cost_class <= b.cost_class);
      if (a.cost_class != b.cost_class) continue;
      const bool knows_time = a.cost_class != CostClass::kTuning;
      if (knows_time) CHECK(a.slower_percent <= b.slower_percent);
      if (!knows_time || a.slower_percent == b.slower_percent) {
        CHECK(a.saved_bytes >= b.saved_bytes);
      }
    }
  }
}

TEST_CASE("it is the same each time") {
  const Graph file = ParseGraph(kHeavy);
  const std::string first = Listed(AtBatch(file, RequestFor("-b 8"), Memory(400 * kMiB)));
  for (int i = 0; i < 3; ++i) {
    CHECK(Listed(AtBatch(file, RequestFor("-b 8"), Memory(400 * kMiB))) == first);
  }
}

}  // namespace
}  // namespace onnxfit::advice_test

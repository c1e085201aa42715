#include <doctest/doctest.h>
#include <fmt/format.h>

#include <optional>
#include <string>

#include "estimator/base/cards.h"
#include "estimator/base/error.h"
#include "estimator/fit/target.h"
#include "estimator/onnx/loader.h"
#include "estimator/oom/replay.h"
#include "estimator/report/oom.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::oom_replay_test {
namespace {

OomExplanation Explain(const std::string& text) {
  return ExplainOom(ReadOomLog("CUDA out of memory. Tried to allocate " + text).processes.at(0));
}

Graph FileOf(const std::string& name) {
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
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
  CHECK(replay.largest->batch > 450000);  // were its ReLU in place: 497046
  CHECK(replay.largest->batch < 466719);
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
  const OomReplay unknown = ReplayOom(file, Request(16), Explain("2.00 MiB (GPU 0;"));
  CHECK(unknown.card_bytes == 0);
  CHECK(!unknown.largest);
  CHECK(!unknown.candidates.empty());
  const OomReplay total =
      ReplayOom(file, Request(16), Explain("2.00 MiB (GPU 0; 1.00 GiB total capacity;"));
  CHECK(total.context_of == "cards of 1.00 GiB");
  CHECK(total.card_bytes == (int64_t{1} << 30) - total.context.bytes);
  CHECK(total.context.low < total.context.bytes);
  CHECK(total.context.bytes < total.context.high);
}

EstimateRequest On(std::string_view card, int64_t batch) {
  EstimateRequest request = Request(batch);
  request.targets.push_back(MakeTarget({.card = FindCard(card)}));
  request.settings.device = request.targets[0].device;
  return request;
}

constexpr char kFourGib[] = "96.00 MiB (GPU 0; 3.81 GiB total capacity; 3.20 GiB already all";

// The GTX 1650 and laptops' RTX 3050 show 3.8 GiB: less than an A100's 503 MiB are taken off.
TEST_CASE("the context is that of cards of the message's size") {
  const Graph file = ParseGraph(kTwoLayers);
  const OomReplay replay = ReplayOom(file, {}, Explain(kFourGib));
  CHECK(replay.context_of == "cards of 3.81 GiB");
  CHECK(replay.context.bytes < 200 << 20);
  CHECK(replay.context.high < 350 << 20);
  CHECK(replay.card_name.empty());
  REQUIRE(replay.largest);
  REQUIRE(replay.largest->at_most);  // the context is a range, of which the high end counts
}

// 61.4 GiB is a Jetson AGX Orin, and near AMD's 64 GB: neither has a context that is known, so it
// is in the range of all others'.
TEST_CASE("a size that no card with a known context has takes the range of all") {
  const OomReplay replay =
      ReplayOom(ParseGraph(kTwoLayers), {},
                Explain("96.00 MiB (GPU 0; 61.37 GiB total capacity; 60.20 GiB already all"));
  CHECK(replay.context.bytes > 80 << 20);
  CHECK(replay.context.high > 500 << 20);
}

// All cards' would go up to an H200's.
TEST_CASE("a size that slices alone have takes theirs") {
  const OomReplay replay =
      ReplayOom(ParseGraph(kTwoLayers), {}, Explain("96.00 MiB (GPU 0; 4.75 GiB total capacity;"));
  const ContextBytes& slice = FindCard("a100-40gb:1g.5gb")->device.context;
  CHECK(replay.context_of == "cards of 4.75 GiB");
  CHECK(replay.context.bytes == slice.bytes);
  CHECK(replay.context.low == slice.low);
  CHECK(replay.context.high == slice.high);
}

TEST_CASE("a card that is named gives its context, its name and its size") {
  const Graph file = ParseGraph(kTwoLayers);
  const OomReplay same = ReplayOom(file, On("gtx1650", 16), Explain(kFourGib));
  CHECK(same.card_name == "GeForce GTX 1650");
  CHECK(!same.is_another);
  CHECK(same.context_of == "GeForce GTX 1650");
  CHECK(same.context == FindCard("gtx1650")->device.context);
  const OomReplay another = ReplayOom(file, On("t4", 16), Explain(kFourGib));
  CHECK(another.is_another);
  CHECK(another.card_bytes == MakeTarget({.card = FindCard("t4")}).capacity_bytes());
  CHECK(ToJson("log", {}, another, {}).find("\"is_another_card\": true") != std::string::npos);
  CHECK(ToJson("log", {}, same, {}).find("is_another_card") == std::string::npos);
}

TEST_CASE("a message is of the card that is named, whether ECC was on or off there") {
  const Graph file = FileOf("mlp_2000.onnxtxt");
  for (const char* total : {"44.55", "47.54", "47.99"}) {
    CAPTURE(total);
    const OomReplay replay = ReplayOom(
        file, On("a6000", 16),
        Explain(fmt::format("8.74 GiB. GPU 0 has a total capacity of {} GiB of which 6.32 GiB is "
                            "free. Of the allocated memory 8.84 GiB is allocated by PyTorch, and "
                            "97.99 MiB is reserved by PyTorch but unallocated.",
                            total)));
    CHECK(!replay.is_another);
  }
}

TEST_CASE("a message without numbers is of the card that is named") {
  const Graph file = ParseGraph(kTwoLayers);
  const OomExplanation bare = ExplainOom(ReadOomLog("CUDA out of memory.").processes.at(0));
  const OomReplay replay = ReplayOom(file, On("t4", 16), bare);
  CHECK(!replay.asks);
  CHECK(replay.candidates.empty());
  CHECK(!replay.is_another);
  CHECK(replay.card_bytes == MakeTarget({.card = FindCard("t4")}).capacity_bytes());
  REQUIRE(replay.largest);
  CHECK(replay.largest->batch == 15);  // 16 failed there
  CHECK(ReplayOom(file, Request(16), bare).card_bytes == 0);
}

constexpr char kLargelyFree[] =
    "2.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 1.00 MiB is free. Of the allocated "
    "memory 10.00 MiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but "
    "unallocated.";

TEST_CASE("the batch that failed is not what to take, though the file alone says so") {
  const Graph file = ParseGraph(kTwoLayers);
  const OomReplay told = ReplayOom(file, Request(16), Explain(kLargelyFree));
  REQUIRE(told.largest);
  CHECK(told.largest->batch == 15);
  CHECK(!told.largest->at_most);
  REQUIRE(told.largest->by_file);
  CHECK(*told.largest->by_file > 16);
  CHECK(SentencesOf(told).on_card[1] ==
        fmt::format("The largest batch to try: 15, as your log shows 16 failing; by this file "
                    "alone: {}.",
                    *told.largest->by_file));
  CHECK(ReplayOom(file, Request(1), Explain(kLargelyFree)).largest->batch == 0);
  const OomReplay untold = ReplayOom(file, {}, Explain(kLargelyFree));
  CHECK(untold.largest->batch == *told.largest->by_file);
  CHECK(!untold.largest->by_file);
  const OomReplay another = ReplayOom(file, On("t4", 16), Explain(kFourGib));
  CHECK(another.largest->batch > 16);
}

// x + 0.5 * fc2 (silu (fc1 (x))) of an export for inference.
constexpr char kHalfStep[] = R"(net (float[2, 64, 64] x) => (float[2, 64, 64] y)
    < float[64] b = ["location": "none"], float[256] c = ["location": "none"],
      float[64, 256] "onnx::MatMul_1" = ["location": "none"],
      float[256, 64] "onnx::MatMul_2" = ["location": "none"] > {
    ["/f/a/MatMul"] k = MatMul (x, "onnx::MatMul_1") ["/f/a/Add"] h = Add (c, k)
    ["/f/Sigmoid"] i = Sigmoid (h) ["/f/Mul"] u = Mul (h, i)
    ["/f/b/MatMul"] f = MatMul (u, "onnx::MatMul_2") ["/f/b/Add"] g = Add (b, f)
    p = Constant <value = float {0.5}> () ["/Mul"] r = Mul (g, p) ["/Add"] y = Add (x, r) })";

TEST_CASE("a run that fails where the file leaves dropouts open says which flag") {
  const Graph file = ParseGraph(kHalfStep);
  const OomExplanation oom = Explain(
      "30.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which 24.00 MiB is free. Of the "
      "allocated memory 900.00 MiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch "
      "but unallocated.");
  const auto replay = [&](std::optional<int64_t> batch, std::optional<double> dropout) {
    return ReplayOom(file,
                     {.binding = {.batch = batch},
                      .settings = {.in_place = InPlaceUse::kNever, .dropout = dropout}},
                     oom);
  };
  const int64_t without = replay({}, 0).largest->batch;
  const int64_t with = replay({}, 0.1).largest->batch;
  REQUIRE(with < without);
  const OomReplay open = replay(without, {});
  REQUIRE(open.fails_at);
  CHECK(open.reading == "--dropout 0.1");
  CHECK(open.largest->batch == with);
  CHECK(!open.largest->by_file);
  CHECK(SentencesOf(open).on_card[0].find(
            "runs ten steps here as guessed; with --dropout 0.1, which the file leaves open, it "
            "fails in step ") != std::string::npos);
  const OomReplay small = replay(with / 2, {});
  CHECK(!small.fails_at);
  CHECK(small.reading.empty());
  CHECK(small.largest->batch == with / 2 - 1);
  CHECK(SentencesOf(small).on_card[0].ends_with(
      "your run differs in batch, precision, optimizer or another flag, or has more dropouts than "
      "this file shows: an export in eval mode loses them (--dropout)."));
}

// 7.50 + 3.90 + 0.20 GiB of a card of 11.00.
TEST_CASE("no card is larger than it says it is") {
  const OomReplay replay =
      ReplayOom(ParseGraph(kTwoLayers), Request(16),
                Explain("1.00 GiB (GPU 0; 11.00 GiB total capacity; 7.50 GiB already allocated; "
                        "200.00 MiB free; 3.90 GiB cached)"));
  CHECK(replay.context_of == "cards of 11.00 GiB");
  CHECK(replay.card_bytes == (int64_t{11} << 30) - replay.context.bytes);
}

}  // namespace
}  // namespace onnxfit::oom_replay_test

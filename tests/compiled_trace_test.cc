// torch.compile: what the forward pass keeps, by the calls that compute it.
#include "estimator/training/compiled_trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <string_view>

#include "estimator/advise/advice.h"
#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/base/error.h"
#include "estimator/fit/estimate.h"
#include "estimator/memory/timeline.h"
#include "tests/checkpointed_net.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::compiled_trace_test {
namespace {

constexpr int64_t kValue = 256 * 64 * 4;  // of kMiddle's values

// Two layers of 64 × 64, and what is between them: from "a" to "b".
std::string NetWith(std::string_view between) {
  return std::string(R"(
  net (float[256, 64] x) => (float[256, 64] y)
  < float[64, 64] w1 = ["location": "none"], float[64, 64] w2 = ["location": "none"],
    float[64, 1] w3 = ["location": "none"] > {
    a = MatMul (x, w1)
    )") + std::string(between) +
         R"(
    y = MatMul (b, w2)
  })";
}

TrainingSettings With(Compiling compile) {
  TrainingSettings settings;
  settings.optimizer = Optimizer::kSgd;
  settings.loss = Loss::kMse;
  settings.compile = compile;
  return settings;
}

Timeline Trained(const std::string& text, Compiling compile) {
  const TrainingSettings settings = With(compile);
  return Replay(Train(Build(text, settings).program, settings));
}

// By how much less the forward pass leaves than eager's.
int64_t Spared(std::string_view between) {
  const auto left = [&](Compiling compile) {
    return Trained(NetWith(between), compile).steps[1].after_forward.requested_bytes;
  };
  return left(Compiling::kNone) - left(Compiling::kInductor);
}

TEST_CASE(
    "a product's operand is kept, all else between it and the last product is computed anew") {
  CHECK(Spared("b = Sigmoid (a)") == 0);
  // a stays for the sigmoid's backward, where its result goes: the same bytes.
  // Of four results the product's own and what the next one reads.
  CHECK(Spared("s = Sigmoid (a) t = Tanh (s) u = Sigmoid (t) b = Tanh (u)") == 2 * kValue);
}

// Else q would be made again of a and p, a column.
TEST_CASE("what reads a value far behind its other readers is kept as it is") {
  CHECK(Spared("s = Sigmoid (a) u = Sigmoid (s) p = MatMul (u, w3) q = Add (s, p) "
               "r = Sigmoid (q) b = Tanh (r)") == 0);
}

// [4, 64, 64], which products see as [256, 64].
std::string InThree(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(float\[256, 64\])"), "float[4, 64, 64]");
}

TEST_CASE("signs are kept beside a result of which a product reads a view") {
  const auto left = [&](const std::string& text, Compiling compile) {
    return Trained(text, compile).steps[1].after_forward.requested_bytes;
  };
  const std::string text = NetWith("b = Relu (a)");
  CHECK(left(text, Compiling::kInductor) == left(text, Compiling::kNone));
  CHECK(left(InThree(text), Compiling::kInductor) ==
        left(InThree(text), Compiling::kNone) + kValue / 4);
}

TEST_CASE("where nothing reads a result but a gate, its signs are all that is kept") {
  CHECK(Spared("r = Relu (a) b = Add (r, x)") == kValue - kValue / 4);
}

constexpr char kMask[] = R"(
    zero = Constant <value = float {0.0}> () low = Constant <value = float {-inf}> ()
    n0 = Constant <value = int64 {0}> () n1 = Constant <value = int64 {1}> ()
    n64 = Constant <value = int64 {64}> () columns = Range (n0, n64, n1)
    keep = GreaterOrEqual (columns, n0) m = Where (keep, zero, low) masked = Add (s, m)
    a = Softmax (masked))";

constexpr char kNoMask[] = "a = Softmax (s)";

// Heads of 16 of 64 tokens.
std::string AttentionWith(const std::string& weights) {
  return R"(
  net (float[1, 2, 64, 16] x) => (float[1, 2, 64, 16] y)
  < float[16, 16] w1 = ["location": "none"], float[16, 16] w2 = ["location": "none"],
    float[16, 16] w3 = ["location": "none"] > {
    q = MatMul (x, w1) k = MatMul (x, w2) v = MatMul (x, w3)
    kt = Transpose <perm = [0, 1, 3, 2]> (k)
    c = Constant <value = float {0.5}> () qs = Mul (q, c) ks = Mul (kt, c) s = MatMul (qs, ks)
    )" + weights +
         R"( [sdpa] y = MatMul (a, v)
  })";
}

// q, k and v are kept alike: under autocast in 16 bits, of which backward's products make casts.
TEST_CASE("a mask that libraries leave out of a run takes fused attention from compiled code") {
  constexpr int64_t kWeights = 2 * 64 * 64 * 4;  // in fp32, under autocast, too
  constexpr int64_t kSums = 2 * 64 * 4;          // of fused attention
  constexpr int64_t kResult = 2 * 64 * 16 * 2;   // which flash attention reads in backward
  constexpr int64_t kSeeds = 24;
  const auto left = [](const std::string& weights, Precision precision, Compiling compile) {
    TrainingSettings settings = With(compile);
    settings.precision = precision;
    const Program program = Build(AttentionWith(weights), settings).program;
    return Replay(Train(program, settings)).steps[1].after_forward.requested_bytes;
  };
  const auto added = [&](Precision precision, Compiling compile) {
    return left(kMask, precision, compile) - left(kNoMask, precision, compile);
  };
  CHECK(added(Precision::kFp32, Compiling::kNone) == 0);
  CHECK(added(Precision::kFp32, Compiling::kInductor) == kWeights - kSums);
  CHECK(added(Precision::kAmpBf16, Compiling::kNone) == 0);
  CHECK(added(Precision::kAmpBf16, Compiling::kInductor) == kWeights - kSums - kResult - kSeeds);
}

TEST_CASE("gradients between products that run in autocast's type are of that, too") {
  TrainingSettings settings = With(Compiling::kInductor);
  settings.precision = Precision::kAmpBf16;
  const Trace trace = Train(Build(AttentionWith(kMask), settings).program, settings);
  bool is_backward = false;
  int found = 0;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) is_backward = event.phase == Phase::kBackward;
    if (!is_backward || event.type != Event::Type::kAlloc) continue;
    const Buffer& buffer = trace.buffers[static_cast<size_t>(event.id)];
    if (buffer.dims != Dims{1, 2, 64, 64}) continue;
    CHECK(buffer.dtype == DType::kBFloat16);
    CHECK(buffer.bytes == 2 * 64 * 64 * 2);
    ++found;
  }
  CHECK(found > 0);
}

// Two layers of attention to what bool masks show; `second` is that of the second one.
std::string AttentionTwice(const std::string& second) {
  return R"(
  net (float[1, 2, 64, 16] x, bool[64, 64] one, bool[64, 64] other) =>
      (float[1, 2, 64, 16] y)
  < float[16, 16] w1 = ["location": "none"], float[16, 16] w2 = ["location": "none"] > {
    c = Constant <value = float {0.5}> () zero = Constant <value = float {0.0}> ()
    low = Constant <value = float {-inf}> ()
    q = MatMul (x, w1) kt = Transpose <perm = [0, 1, 3, 2]> (q)
    qs = Mul (q, c) ks = Mul (kt, c) s = MatMul (qs, ks)
    m = Where (one, zero, low) masked = Add (s, m) a = Softmax (masked) [sdpa] z = MatMul (a, q)
    q2 = MatMul (z, w2) kt2 = Transpose <perm = [0, 1, 3, 2]> (q2)
    qs2 = Mul (q2, c) ks2 = Mul (kt2, c) s2 = MatMul (qs2, ks2)
    m2 = Where ()" +
         second + R"(, zero, low) masked2 = Add (s2, m2) a2 = Softmax (masked2)
    [sdpa2] y = MatMul (a2, q2)
  })";
}

TEST_CASE("a bool mask is made one to be added once for all layers") {
  constexpr int64_t kAdded = 64 * 64 * 4;
  const auto left = [](const std::string& second, Compiling compile) {
    return Trained(AttentionTwice(second), compile).steps[1].after_forward.requested_bytes;
  };
  const auto spared = [&](Compiling compile) {
    return left("other", compile) - left("one", compile);
  };
  CHECK(spared(Compiling::kNone) == 0);
  CHECK(spared(Compiling::kInductor) == kAdded);
}

// linear (x, w, bias) of three dimensions and a transposed x is a product, of which bias is added
// to a view: one buffer has both, and is kept for the sum.
TEST_CASE("what writes over a view is in the buffer that is seen") {
  const char* const text = R"(
  net (float[4, 64, 64] x) => (float[4, 64, 64] y)
  < float[64, 64] w1 = ["location": "none"], float[64, 64] w2 = ["location": "none"],
    float[64] "fc.bias" = ["location": "none"] > {
    t = Transpose <perm = [0, 2, 1]> (x)
    m = MatMul (t, w1)
    a = Add ("fc.bias", m)
    b = Gelu (a)
    y = MatMul (b, w2)
  })";
  const auto left = [&](Compiling compile) {
    return Trained(text, compile).steps[1].after_forward.requested_bytes;
  };
  CHECK(left(Compiling::kInductor) == left(Compiling::kNone));
}

// Copies of the image and of the weight, in the place of nothing; few channels are left as they
// are.
TEST_CASE("given tensors are copied for convolutions in channels_last") {
  const auto more = [](const std::string& channels) {
    const std::string text = "net (float[2, 3, 8, 8] x) => (float[2, " + channels +
                             ", 8, 8] y) < float[" + channels +
                             R"(, 3, 3, 3] w = ["location": "none"] > {
    y = Conv <pads = [1, 1, 1, 1]> (x, w)
  })";
    const auto left = [&](Compiling compile) {
      return Trained(text, compile).steps[1].after_forward.requested_bytes;
    };
    return left(Compiling::kInductor) - left(Compiling::kNone);
  };
  CHECK(more("128") == (2 * 3 * 8 * 8 + 128 * 3 * 3 * 3) * 4);  // convolution_backward reads both
  CHECK(more("64") == 0);
}

// One whose output channels are fewer than its input channels has no groups for that.
TEST_CASE("a transposed convolution reads channels_last, too") {
  const auto left = [](Compiling compile) {
    return Trained(R"(
  net (float[2, 128, 8, 8] x) => (float[2, 96, 10, 10] y)
  < float[128, 96, 3, 3] w = ["location": "none"] > {
    y = ConvTranspose (x, w)
  })",
                   compile)
        .steps[1]
        .after_forward.requested_bytes;
  };
  CHECK(left(Compiling::kInductor) - left(Compiling::kNone) ==
        (2 * 128 * 8 * 8 + 128 * 96 * 3 * 3) * 4);
}

// Eager keeps s, n in fp32 and two casts of it where a, in the place of s, and one cast will do.
TEST_CASE("two casts of one tensor are one") {
  const auto left = [](Compiling compile) {
    TrainingSettings settings = With(compile);
    settings.precision = Precision::kAmpBf16;
    const std::string text =
        NetWith("s = Sigmoid (a) n = Exp (s) c = MatMul (n, w2) d = MatMul (n, w1) b = Add (c, d)");
    return Replay(Train(Build(text, settings).program, settings))
        .steps[1]
        .after_forward.requested_bytes;
  };
  CHECK(left(Compiling::kNone) - left(Compiling::kInductor) == kValue + kValue / 2);
}

TEST_CASE("the plan as eager's is eager's") {
  const std::string text = kTwoBlocks;
  CHECK(Trained(text, Compiling::kAsEager).peak == Trained(text, Compiling::kNone).peak);
}

TEST_CASE("every tensor goes once, and no later than the loop's last ones") {
  const TrainingSettings settings = With(Compiling::kInductor);
  const Trace trace =
      Train(Build(NetWith("s = Sigmoid (a) b = Tanh (s)"), settings).program, settings);
  std::vector<int> frees(trace.buffers.size());
  std::vector<bool> is_alive(trace.buffers.size());
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kAlloc) is_alive[Index(event.id)] = true;
    if (event.type != Event::Type::kFree) continue;
    CHECK(is_alive[Index(event.id)]);
    is_alive[Index(event.id)] = false;
    CHECK(++frees[Index(event.id)] == 1);
  }
  const Timeline timeline = Replay(trace);
  CHECK(timeline.steps[1].after_step.requested_bytes ==
        timeline.steps[2].after_step.requested_bytes);
}

TEST_CASE("verdicts take eager's plan, which stands beside the guess") {
  const std::string text = NetWith("s = Sigmoid (a) t = Tanh (s) u = Sigmoid (t) b = Tanh (u)");
  const auto estimate = [&](Compiling compile) {
    return MakeEstimate(ParseGraph(text), {.binding = {.batch = 1 << 16},
                                           .settings = With(compile),
                                           .targets = {MakeTarget({.card = FindCard("t4")})}});
  };
  const Estimate guess = estimate(Compiling::kInductor);
  const Estimate most = estimate(Compiling::kAsEager);
  CHECK(guess.device_bytes < most.device_bytes);
  REQUIRE(guess.range.has_value());
  CHECK(guess.range->high.device_bytes == most.device_bytes);
  CHECK(guess.range->high.flags == "--compile as-eager");
  const auto tells = [](const std::string& text) {
    return text.starts_with("torch.compile keeps");
  };
  CHECK(std::ranges::any_of(guess.assumptions, tells));
  CHECK(std::ranges::none_of(most.assumptions, tells));
  CHECK(guess.targets[0].judgement.used_bytes == most.targets[0].judgement.used_bytes);
}

TEST_CASE("beside checkpoints and ranks, and without gradients, nothing is known") {
  TrainingSettings settings = With(Compiling::kInductor);
  CHECK(IsCompiled(settings));
  settings.checkpoint = {"auto"};
  CHECK_FALSE(IsCompiled(settings));
  settings = With(Compiling::kInductor);
  settings.ranks.strategy = Strategy::kDdp;
  CHECK_FALSE(IsCompiled(settings));
  settings = With(Compiling::kInductor);
  settings.mode = Mode::kEval;
  CHECK_FALSE(IsCompiled(settings));
}

TEST_CASE("checkpoints that the file has in it are refused as those of the flag are") {
  TrainingSettings settings = With(Compiling::kInductor);
  Program program = Build(kTwoBlocks, settings).program;
  CHECK_NOTHROW(CheckCompilable(program, settings));
  program.calls[1].checkpoint = 0;
  CHECK_THROWS_WITH_AS(Train(program, settings),
                       "--compile: expected a model without torch.utils.checkpoint in it, beside "
                       "which compiled code is not known here (try: --compile none)",
                       Error);
  settings.mode = Mode::kEval;
  CHECK_NOTHROW(CheckCompilable(program, settings));
}

TEST_CASE("no advice is what the command refuses beside --compile") {
  const auto flags = [](Compiling compile) {
    const EstimateRequest request = {.binding = {.batch = 1},
                                     .settings = {.compile = compile},
                                     .targets = {MakeTarget({.memory_bytes = 2 * kGiB})}};
    const Graph graph = LoadGraph(std::string(kSourceDir) + "/models/gpt2.dynamo.onnx");
    Estimate estimate = MakeEstimate(graph, request);
    AddAdvice(graph, request, estimate);
    std::string all;
    for (const Advice& advice : estimate.targets[0].advice) all += advice.flags + "\n";
    return all;
  };
  const std::string eager = flags(Compiling::kNone);
  const std::string compiled = flags(Compiling::kInductor);
  for (const char* const refused : {"--checkpoint", "--quantize", "--strategy"}) {
    CAPTURE(refused);
    CHECK(eager.find(refused) != std::string::npos);
    CHECK(compiled.find(refused) == std::string::npos);
  }
}

}  // namespace
}  // namespace onnxfit::compiled_trace_test

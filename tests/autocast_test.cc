#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/operators/dispatch.h"
#include "tests/trace_helpers.h"

namespace onnxfit::autocast_test {
namespace {

std::string Phase(const std::string& text, const std::string& name) {
  const size_t begin = text.find("\n" + name);
  return text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
}

TEST_CASE("autocast casts arguments from the last to the first, parameters once") {
  const std::string text = TraceText(kTwoLayers, {.precision = Precision::kAmpBf16,
                                                  .optimizer = Optimizer::kSgd,
                                                  .in_place = InPlaceUse::kAlways,
                                                  .steps = 1});
  // The cast input is saved with its layer; log-probabilities are cast for nll_loss; the
  // cast of w1, which nothing saved since x is data, goes when autocast exits.
  CHECK(Phase(text, "forward") ==
        "forward   +x:256 +labels:128 +w1.cast:64 +x.cast:128 +h:256 "
        "+cuBLAS workspace:8519680 +w2.cast:32 +y:64 +log_probabilities:64 "
        "+log_probabilities.cast:128 +loss:4 +loss.total_weight:4 -y -w1.cast");
  // The weight's gradient is made in 16 bits, then cast.
  CHECK(Phase(text, "backward").find("+w2.cast.grad:32 ") != std::string::npos);
  CHECK(Phase(text, "backward").find("+w2.grad:64 -w2.cast.grad ") != std::string::npos);
}

// nn.Conv2d with frozen parameters: each call casts them anew (recorded events).
TEST_CASE("casts of one call go from the last to the first") {
  const std::string text = TraceText(
      R"(net (float[2, 3, 8, 8] x) => (float[2, 4, 8, 8] y)
         < float[4, 3, 1, 1] w = ["location": "none"], float[4] b = ["location": "none"] > {
           y = Conv (x, w, b)
         })",
      {.precision = Precision::kAmpBf16, .loss = Loss::kNone, .freeze = {"w", "b"}, .steps = 1});
  CHECK_MESSAGE(text.find("+b.cast:8 +w.cast:24 +x.cast:768 +y:1024 -x.cast -w.cast -b.cast") !=
                    std::string::npos,
                text);
}

// x.transpose(1, 2) @ w: rows without gaps for one matrix that asks for a gradient, in inference,
// too (recorded events).
TEST_CASE("what autocast keeps of a parameter asks for a gradient in inference") {
  const std::string text =
      TraceText(R"(net (float[2, 4, 3] x) => (float[2, 3, 8] y)
                   < float[4, 8] w = ["location": "none"] > {
                     t = Transpose <perm = [0, 2, 1]> (x) y = MatMul (t, w)
                   })",
                {.precision = Precision::kAmpBf16, .mode = Mode::kEval, .steps = 1});
  CHECK_MESSAGE(text.find("+y.clone:48") != std::string::npos, text);
}

TEST_CASE("a weight that prelu views for each channel is cast before, once") {
  const std::string text =
      TraceText(R"(net (float[2, 4] x) => (float[2, 4] z)
                   < float[4] w = ["location": "none"] > {
                     y = PRelu (x, w) z = PRelu (y, w)
                   })",
                {.precision = Precision::kAmpBf16, .mode = Mode::kEval, .steps = 1});
  CHECK(text.find("+w.cast:8") != std::string::npos);
  CHECK(text.find("+w.cast:8") == text.rfind("+w.cast:8"));
}

TEST_CASE("GradScaler keeps two numbers") {
  const std::string text = TraceText(
      kTwoLayers, {.precision = Precision::kAmpFp16, .optimizer = Optimizer::kSgd, .steps = 2});
  CHECK(Phase(text, "backward")
            .find("backward  +GradScaler.scale:4 +GradScaler.growth_tracker:4 "
                  "+GradScaler.scaled_loss:4 +loss.grad:4") == 0);
  CHECK(text.find("GradScaler.scale:", text.find("optimizer")) == std::string::npos);
}

TEST_CASE("what autocast leaves alone runs in the type of its input, or the widest") {
  const std::string text =
      TraceText(R"(net (float[16, 4] x) => (float[16, 8] y)
                   < float[4, 8] w = ["location": "none"], float[8] b = ["location": "none"] > {
                     h = MatMul (x, w)
                     s = Sigmoid (h)
                     y = Add (s, b)
                   })",
                {.precision = Precision::kAmpBf16, .mode = Mode::kEval, .steps = 1});
  CHECK(text.find("+s:256 ") != std::string::npos);  // 16 * 8 * 2
  CHECK(text.find("+y:512 ") != std::string::npos);  // 16 * 8 * 4: b is fp32
}

// torch 2.11 events: a softmax's kernel reads fp16, but of bf16 makes a copy; a sum's reads both.
TEST_CASE("some kernels read 16 bits and make fp32 of them") {
  const auto forward = [](const char* node, Precision precision) {
    return TraceText(
        std::string("net (float[16, 4] x) => (float[16, A] y) "
                    "< float[4, 8] w = [\"location\": \"none\"] > "
                    "{ h = MatMul (x, w) a = Constant <value = int64[1] {1}> () y = ") +
            node + " }",
        {.precision = precision, .mode = Mode::kEval, .loss = Loss::kNone, .steps = 1});
  };
  constexpr std::string_view kCast = "+h.cast:512 ";  // 16 * 8 * 4
  CHECK(forward("Softmax (h)", Precision::kAmpBf16).find(kCast) != std::string::npos);
  CHECK(forward("Softmax (h)", Precision::kAmpFp16).find(kCast) == std::string::npos);
  CHECK(forward("Softmax (h)", Precision::kAmpFp16).find("+y:512 ") != std::string::npos);
  CHECK(forward("ReduceSum (h, a)", Precision::kAmpBf16).find(kCast) == std::string::npos);
  CHECK(forward("ReduceSum (h, a)", Precision::kAmpBf16).find("+y:64 ") != std::string::npos);
  CHECK(forward("ReduceL2 (h, a)", Precision::kAmpFp16).find("+y:64 ") != std::string::npos);
}

TEST_CASE("a pure 16-bit model has 16-bit gradients and state, statistics in fp32") {
  const std::string text = TraceText(R"(net (float[4, 2, 3, 3] x) => (float[4, 2, 3, 3] y)
                   < float[2] "bn.weight" = {1, 1}, float[2] "bn.bias" = {0, 0},
                     float[2] "bn.running_mean" = {0, 0}, float[2] "bn.running_var" = {1, 1} > {
                     y = BatchNormalization (x, "bn.weight", "bn.bias", "bn.running_mean",
                                             "bn.running_var")
                   })",
                                     {.precision = Precision::kBf16, .steps = 1});
  CHECK(text.find("+bn.weight:4 ") != std::string::npos);
  CHECK(text.find("+y.save_mean:8 ") != std::string::npos);
  CHECK(text.find("+bn.weight.exp_avg:4 ") != std::string::npos);
}

// scores += bias, of 16 bits and 32: what is written over keeps its type.
TEST_CASE("a sum in place has the type of what it is written over") {
  PreparedRun built =
      Build(R"(net (float[16, 4] x) => (float[16, 8] y)
                   < float[4, 8] w = ["location": "none"], float[16, 8] b = ["location": "none"] > {
                     h = MatMul (x, w)
                     y = Add (h, b)
                   })",
            {.precision = Precision::kAmpBf16, .mode = Mode::kEval, .loss = Loss::kNone});
  const TrainingSettings settings = {
      .precision = Precision::kAmpBf16, .mode = Mode::kEval, .loss = Loss::kNone};
  const auto type = [&] {
    const Program program = Dispatch(built.program, settings);
    return program.values[Index(program.outputs[0])].type.dtype;
  };
  built.program.calls.back().written_in_place = false;
  CHECK(type() == DType::kFloat32);
  built.program.calls.back().written_in_place = true;
  CHECK(type() == DType::kBFloat16);
}

}  // namespace
}  // namespace onnxfit::autocast_test

// --channels-last: kernels and pictures in that memory format, and what is copied because of it.
#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "tests/parsed_options.h"
#include "tests/trace_helpers.h"

namespace onnxfit::memory_formats_test {
namespace {

const TrainingSettings kOneStep = {
    .optimizer = Optimizer::kNone, .loss = Loss::kMse, .channels_last = true, .steps = 1};

TEST_CASE("a model on the device is copied tensor by tensor, and each batch when it is there") {
  CHECK(TraceText(R"(
    net (float[2, 8, 8, 8] x) => (float[2, 4, 6, 6] y)
    < float[4, 8, 3, 3] w = ["location": "none"], float[4] b = ["location": "none"] > {
      y = Conv (x, w, b)
    })",
                  kOneStep) == R"(
setup     +w:1152 +b:16 +w:1152 -w
forward   +x:4096 +x:4096 -x +labels:1152 +y:1152 +loss:1152 +loss.scratch:1152 -loss.scratch
backward  +loss.grad:4 +y.grad:1152 -y +Conv #0.scratch:1152 +w.grad:1152 +b.grad:16 -Conv #0.scratch -y.grad -loss.grad
optimizer
)");
}

TEST_CASE("what is flattened behind a convolution is copied, which lies as matrices do") {
  CHECK(TraceText(R"(
    net (float[2, 8, 4, 4] x) => (float[2, 3] y)
    < float[4, 8, 3, 3] w = ["location": "none"], float[16, 3] h = ["location": "none"] > {
      c = Conv (x, w)
      f = Flatten (c)
      y = MatMul (f, h)
    })",
                  kOneStep) == R"(
setup     +w:1152 +h:192 +w:1152 -w
forward   +x:1024 +x:1024 -x +labels:24 +c:128 +f.clone:128 -c +y:24 +cuBLAS workspace:8519680 +loss:24 +loss.scratch:24 -loss.scratch
backward  +loss.grad:4 +y.grad:24 -y +h.grad:192 +cuBLAS workspace:8519680 +f.grad:128 -y.grad -f.clone +Conv #0.scratch:128 +w.grad:1152 -Conv #0.scratch -f.grad -loss.grad
optimizer
)");
}

// 4 sums of fp32 by 2 channels and 98 blocks of 512 threads; backward has 2 of them.
TEST_CASE("batch norms of 16 bits leave sums of their blocks, which contiguous ones do not") {
  const auto text = [](bool last) {
    TrainingSettings settings = kOneStep;
    settings.precision = Precision::kBf16;
    settings.channels_last = last;
    return TraceText(R"(
      net (float[8, 2, 448, 448] x) => (float[8, 2, 448, 448] y, float[2] m, float[2] v)
      < float[2] w = ["location": "none"], float[2] b = ["location": "none"],
        float[2] mean = ["location": "none"], float[2] var = ["location": "none"] > {
        y, m, v = BatchNormalization <training_mode = 1> (x, w, b, mean, var)
      })",
                     settings);
  };
  CHECK(text(true).find("BatchNormalization #0.scratch:4096 +BatchNormalization #0.scratch:4") !=
        std::string::npos);
  CHECK(text(false).find("BatchNormalization #0.scratch:4096") == std::string::npos);
}

TEST_CASE("kernels of films are refused, as PyTorch does") {
  const auto run = [] {
    TraceText(R"(
      net (float[1, 2, 4, 4, 4] x) => (float[1, 3, 2, 2, 2] y)
      < float[3, 2, 3, 3, 3] w = ["location": "none"] > {
        y = Conv (x, w)
      })",
              kOneStep);
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("'w' of 5 dimensions"), Error);
}

TEST_CASE("beside what lays tensors out otherwise it is refused") {
  const auto refusal = [](Args flags) {
    flags.insert(flags.begin(), {"model.onnx", "--channels-last"});
    return ErrorOf(flags);
  };
  CHECK(refusal({}).empty());
  CHECK(refusal({"--strategy", "ddp"}).empty());
  CHECK(refusal({"--strategy", "fsdp"}).find("without --strategy") != std::string::npos);
  CHECK(refusal({"--strategy", "fsdp-hybrid"}).find("without --strategy") != std::string::npos);
  CHECK(refusal({"--quantize", "nf4"}).find("without --quantize") != std::string::npos);
  CHECK(refusal({"--compile", "inductor"}).find("without --compile") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::memory_formats_test

// What convolutions copy because of how their tensors lie, in order: as torch 2.11.0 did on an H200
// (cuDNN's workspaces are left out, which the default card does not have).
#include <doctest/doctest.h>

#include "tests/trace_helpers.h"

namespace onnxfit::convolution_copies_test {
namespace {

const TrainingSettings kOneStep = {.optimizer = Optimizer::kNone, .loss = Loss::kMse, .steps = 1};

TEST_CASE("in the order NHWC the weight is copied, and its gradient back") {
  CHECK(TraceText(R"(
    net (float[2, 8, 8, 16] x) => (float[2, 4, 6, 6] y)
    < float[16, 16] a = ["location": "none"], float[4, 16, 3, 3] w = ["location": "none"] > {
      m = MatMul (x, a)
      t = Transpose <perm = [0, 3, 1, 2]> (m)
      y = Conv (t, w)
    })",
                  kOneStep) == R"(
setup     +a:1024 +w:2304
forward   +x:8192 +labels:1152 +m.mm:8192 +cuBLAS workspace:8519680 +y:1152 +Conv #2.scratch:2304 -Conv #2.scratch +loss:1152 +loss.scratch:1152 -loss.scratch
backward  +loss.grad:4 +y.grad:1152 -y +Conv #2.scratch:1152 +t.grad:8192 +Conv #2.scratch:2304 -Conv #2.scratch +w.grad:2304 -Conv #2.scratch -y.grad -m.mm +w.grad:2304 -w.grad +a.grad:1024 +cuBLAS workspace:8519680 -t.grad -loss.grad
optimizer
)");
}

TEST_CASE("of one dimension x is made contiguous, in backward once more") {
  CHECK(TraceText(R"(
    net (float[2, 8, 16] x) => (float[2, 4, 6] y)
    < float[16, 16] a = ["location": "none"], float[4, 16, 3] w = ["location": "none"] > {
      m = MatMul (x, a)
      t = Transpose <perm = [0, 2, 1]> (m)
      y = Conv (t, w)
    })",
                  kOneStep) == R"(
setup     +a:1024 +w:768
forward   +x:1024 +labels:192 +m.mm:1024 +cuBLAS workspace:8519680 +Conv #2.scratch:1024 +y:192 -Conv #2.scratch +loss:192 +loss.scratch:192 -loss.scratch
backward  +loss.grad:4 +y.grad:192 -y +Conv #2.scratch:1024 +t.grad:1024 +w.grad:768 -Conv #2.scratch -y.grad -m.mm +m.mm.grad:1024 -t.grad +a.grad:1024 +cuBLAS workspace:8519680 -m.mm.grad -loss.grad
optimizer
)");
}

TEST_CASE("channel by channel the weight's gradient comes first") {
  CHECK(TraceText(R"(
    net (float[2, 16, 8, 8] x) => (float[2, 16, 6, 6] y)
    < float[16, 16, 1, 1] a = ["location": "none"], float[16, 1, 3, 3] w = ["location": "none"] > {
      h = Conv (x, a)
      y = Conv <group = 16> (h, w)
    })",
                  kOneStep) == R"(
setup     +a:1024 +w:576
forward   +x:8192 +labels:4608 +h:8192 +y:4608 +loss:4608 +loss.scratch:4608 -loss.scratch
backward  +loss.grad:4 +y.grad:4608 -y +w.grad:576 +h.grad:8192 -y.grad -h +a.grad:1024 -h.grad -loss.grad
optimizer
)");
}

}  // namespace
}  // namespace onnxfit::convolution_copies_test

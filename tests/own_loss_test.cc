// Models that return their own loss.
#include <doctest/doctest.h>

#include <string>

#include "tests/run_command.h"
#include "tests/temp_folder.h"
#include "tests/trace_helpers.h"

namespace onnxfit::own_loss_test {
namespace {

constexpr const char* kOneNumber = R"(net (float[N, 64] x, float[N, 8] t) => (float loss)
  < float[64, 8] w = ["location": "none"] > {
    h = MatMul (x, w)
    d = Sub (h, t)
    s = Mul (d, d)
    loss = ReduceMean <keepdims = 0> (s)
  })";

constexpr const char* kClasses = R"(net (float[N, 64] x) => (float[N, 8] y)
  < float[64, 8] w = ["location": "none"] > { y = MatMul (x, w) })";

std::string Traced(const char* text, Loss loss) {
  return TraceText(text, {.loss = loss, .steps = 2});
}

}  // namespace

TEST_CASE("one number is the loss itself, whatever loss of classes is asked for") {
  const std::string own = Traced(kOneNumber, Loss::kNone);
  CHECK(Traced(kOneNumber, Loss::kCrossEntropy) == own);
  CHECK(Traced(kOneNumber, Loss::kCausalLm) == own);
  CHECK(own.find("labels") == own.npos);
  CHECK(Traced(kOneNumber, Loss::kMse) != own);
  CHECK(Traced(kClasses, Loss::kCrossEntropy).find("labels") != own.npos);
}

TEST_CASE("the answer says so") {
  const TempFolder folder;
  const std::string model = folder.Write(
      "net.onnxtxt", "<ir_version: 8, opset_import: [\"\" : 17]>\n" + std::string(kOneNumber));
  const std::string taken = "the model's output is one number, which is taken for the loss itself";
  CHECK(RunCommand({model, "-b", "4"}).out.find("labels") == std::string::npos);
  CHECK(RunCommand({model, "-b", "4", "-v"}).out.find(taken) != std::string::npos);
  CHECK(RunCommand({model, "-b", "4", "-v", "--mode", "eval"}).out.find(taken) ==
        std::string::npos);
}

}  // namespace onnxfit::own_loss_test

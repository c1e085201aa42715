#include "estimator/transforms/stages.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::stages_test {
namespace {

// Three blocks; a mask of the input's, and what the first block has made, which the last reads.
constexpr char kThreeBlocks[] = R"(
  net (float[256, 64] x) => (float[256, 64] y)
  < float[64, 64] "h.0.fc.weight" = ["location": "none"],
    float[64, 64] "h.1.fc.weight" = ["location": "none"],
    float[64, 64] "h.2.fc.weight" = ["location": "none"] > {
    ["/Neg"] mask = Neg (x)
    ["/h.0/fc/MatMul"] a = MatMul (x, "h.0.fc.weight")
    ["/h.0/act/Sigmoid"] b = Sigmoid (a)
    ["/h.1/fc/MatMul"] c = MatMul (b, "h.1.fc.weight")
    ["/h.1/act/Sigmoid"] d = Sigmoid (c)
    ["/h.2/fc/MatMul"] e = MatMul (d, "h.2.fc.weight")
    ["/h.2/act/Sigmoid"] f = Sigmoid (e)
    ["/h.2/Mul"] g = Mul (f, mask)
    ["/h.2/Add"] y = Add (g, a)
  })";

RankSettings Stages(int64_t world, std::vector<std::string> begins = {}) {
  RankSettings ranks = {.strategy = Strategy::kPipeline, .world = world};
  ranks.pipeline.begins = std::move(begins);
  return ranks;
}

Program WholeOf(const char* net) { return Build(net, {}).program; }

Program Stage(const Program& whole, int64_t world, size_t stage) {
  return StageOf(whole, StageBegins(whole, Stages(world)), stage);
}

std::string OpsText(const Program& program) {
  std::string text;
  for (const AtenCall& call : program.calls) text += " " + std::string(call.op);
  return text;
}

std::string ErrorOf(const Program& program, const RankSettings& ranks) {
  try {
    StageBegins(program, ranks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("blocks are shared, what is before and behind them counts as one") {
  const Program two = WholeOf(kTwoBlocks);
  CHECK(StageBegins(two, Stages(1)) == std::vector<int32_t>{0});
  CHECK(StageBegins(two, Stages(2)) == std::vector<int32_t>{0, 3});
  // Five items: the first stage has three of them: what is before the blocks, and two.
  const Program three = WholeOf(kThreeBlocks);
  CHECK(StageBegins(three, Stages(2)) == std::vector<int32_t>{0, 5});
  CHECK(StageBegins(three, Stages(3)) == std::vector<int32_t>{0, 3, 9});
}

TEST_CASE("a stage begins with a module that is named") {
  const Program three = WholeOf(kThreeBlocks);
  CHECK(StageBegins(three, Stages(2, {"h.1"})) == std::vector<int32_t>{0, 3});
  CHECK(ErrorOf(three, Stages(3, {"h.1"}))
            .starts_with("--split-at: expected a module for each of 3 stages but the first, found "
                         "1 that run"));
  CHECK(ErrorOf(three, Stages(6))
            .starts_with("--world: expected at most 5 stages of 3 blocks that repeat, found 6"));
  // Behind the last block there is the loss; before the first of two nothing.
  CHECK(StageBegins(three, Stages(5)) == std::vector<int32_t>{0, 1, 3, 5, 9});
  CHECK(ErrorOf(WholeOf(kTwoBlocks), Stages(4))
            .starts_with("--strategy: pipeline: expected calls in each of 4 stages, found none in "
                         "stage 0"));
}

TEST_CASE("a stage that has nothing to train is an error") {
  const Program three = WholeOf(kThreeBlocks);
  std::string error;
  try {
    StageOf(three, StageBegins(three, Stages(5)), 0);
  } catch (const Error& thrown) {
    error = thrown.what();
  }
  CHECK(
      error.starts_with("--strategy: pipeline: expected parameters to train in each of 5 stages, "
                        "found none in stage 0, the model's input to "));
}

TEST_CASE("a stage has its calls and the tensors that they read") {
  const Program whole = WholeOf(kTwoBlocks);
  const Program first = Stage(whole, 2, 0);
  CHECK(OpsText(first) == " matmul sigmoid matmul");
  CHECK(NamesText(first, first.parameters) == " h.0.fc.weight h.0.out.weight");
  CHECK(NamesText(first, first.sent) == " c");
  CHECK(NamesText(first, first.inputs) == " x");
  CHECK(first.loss == kNoName);
  const Program last = Stage(whole, 2, 1);
  CHECK(NamesText(last, last.placement) == " h.1.fc.weight h.1.out.weight head.weight");
  CHECK(NamesText(last, last.received) == " c");
  CHECK(last.sent.empty());
  CHECK(last.loss == whole.loss);
  CHECK(last.inputs.size() == 1);  // labels
}

TEST_CASE("what no parameter has a part in is computed anew, the rest goes through all stages") {
  const Program whole = WholeOf(kThreeBlocks);
  const std::vector<int32_t> begins = StageBegins(whole, Stages(3, {"h.1", "h.2"}));
  const Program middle = StageOf(whole, begins, 1);
  CHECK(OpsText(middle) == " matmul sigmoid");
  CHECK(NamesText(middle, middle.received) == " b a");
  CHECK(NamesText(middle, middle.sent) == " d a");
  CHECK(middle.inputs.empty());
  const Program last = StageOf(whole, begins, 2);
  CHECK(OpsText(last).starts_with(" neg matmul sigmoid mul add"));
  CHECK(NamesText(last, last.received) == " d a");
  CHECK(last.inputs.size() == 2);
}

TEST_CASE("what no call reads is where its module runs") {
  Program whole = WholeOf(kTwoBlocks);
  const auto add = [&](const char* name) {
    whole.buffers.push_back(static_cast<NameId>(whole.values.size()));
    whole.placement.push_back(whole.buffers.back());
    whole.values.push_back({.name = name, .type = {{DType::kInt64, {}}, {}}});
  };
  add("h.1.fc.count");
  add("h.count");  // of a module that runs in both
  add("count");
  const Program first = Stage(whole, 2, 0);
  CHECK(NamesText(first, first.buffers) == " h.count count");
  const Program last = Stage(whole, 2, 1);
  CHECK(NamesText(last, last.buffers) == " h.1.fc.count");
}

// An embedding in the first stage, whose weight the last one's head has, too.
TEST_CASE("a tied head has its weight behind all others") {
  Program whole = WholeOf(kTwoBlocks);
  AtenCall& head = whole.calls[6];
  REQUIRE(head.where == "/head/MatMul");
  head.inputs[1] = whole.calls[0].inputs[1];
  const Program last = Stage(whole, 2, 1);
  CHECK(NamesText(last, last.placement) ==
        " h.1.fc.weight h.1.out.weight head.weight h.0.fc.weight");
}

}  // namespace
}  // namespace onnxfit::stages_test

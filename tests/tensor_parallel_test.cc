// Ranks that share layers.
#include "estimator/program/tensor_parallel.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/fit/estimate.h"
#include "estimator/libraries/libraries.h"
#include "tests/checkpointed_net.h"
#include "tests/trace_helpers.h"

namespace onnxfit::tensor_parallel_test {
namespace {

// A batch of 256 through a layer, a feed-forward block of 64 and 128 features, and a head.
constexpr char kFeedForward[] = R"(
  net (float[256, 64] x) => (float[256, 2] y)
  < float[64, 64] "stem.weight" = ["location": "none"],
    float[128, 64] "mlp.fc1.weight" = ["location": "none"],
    float[128] "mlp.fc1.bias" = ["location": "none"],
    float[64, 128] "mlp.fc2.weight" = ["location": "none"],
    float[64] "mlp.fc2.bias" = ["location": "none"],
    float[64, 2] "head.weight" = ["location": "none"] > {
    ["/stem/MatMul"] s = MatMul (x, "stem.weight")
    ["/mlp/fc1/Gemm"] a = Gemm <transB = 1> (s, "mlp.fc1.weight", "mlp.fc1.bias")
    ["/mlp/act/Sigmoid"] b = Sigmoid (a)
    ["/mlp/fc2/Gemm"] c = Gemm <transB = 1> (b, "mlp.fc2.weight", "mlp.fc2.bias")
    ["/head/MatMul"] y = MatMul (c, "head.weight")
  })";

TrainingSettings Shared(int64_t ranks) {
  TrainingSettings settings;
  settings.ranks.tensor_parallel = ranks;
  return settings;
}

int64_t BytesOf(const Program& program, std::string_view name) {
  for (const ProgramValue& value : program.values) {
    if (value.name == name) return onnxfit::BytesOf(value.type);
  }
  return -1;
}

std::string OpsOf(const Program& program, std::string_view path) {
  std::string ops;
  for (const AtenCall& call : program.calls) {
    if (program.modules.PathOf(call.module) == path) ops += std::string(call.op) + " ";
  }
  return ops;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string RefusalOf(std::string_view text, const TrainingSettings& settings) {
  try {
    const Trace trace = Train(Build(text, settings).program, settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Allocations of this size by calls of that name, in forward or backward.
int CountOf(std::string_view trace, std::string_view words) {
  int count = 0;
  for (size_t at = trace.find(words); at != trace.npos; at = trace.find(words, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("columns and rows have their ranks' part of the bytes, and so has what is between them") {
  const Program whole = Build(kFeedForward, {}).program;
  for (const int64_t ranks : {2, 4}) {
    const Program program = Build(kFeedForward, Shared(ranks)).program;
    for (const char* name : {"mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight", "a", "b"}) {
      CAPTURE(name);
      CHECK(BytesOf(program, name) == BytesOf(whole, name) / ranks);
    }
    for (const char* name : {"stem.weight", "mlp.fc2.bias", "head.weight", "s", "c"}) {
      CAPTURE(name);
      CHECK(BytesOf(program, name) == BytesOf(whole, name));
    }
  }
}

TEST_CASE("columns are given the same on all ranks, what rows make is summed up") {
  const Program program = Build(kFeedForward, Shared(2)).program;
  CHECK(OpsOf(program, "mlp.fc1") == "from_local linear ");
  CHECK(OpsOf(program, "mlp.fc2") == "linear_of_rows all_reduce ");
  CHECK(OpsOf(program, "stem") == "matmul ");
}

// Forward: a part of the bias, a part of the result, its sum.  Backward: the sum of gradients.
TEST_CASE("sums over ranks are new tensors, whose parts are let go behind them") {
  const std::string trace = TraceText(kFeedForward, Shared(2));
  const std::string whole = TraceText(kFeedForward, {});
  CAPTURE(trace);
  CHECK(CountOf(trace, "65536") > CountOf(whole, "65536"));
}

TEST_CASE("sizes that ranks do not share evenly stay whole, which is told") {
  CHECK(RefusalOf(kFeedForward, Shared(3)) ==
        "<text>: --tensor-parallel: expected linear layers that ranks can share (q_proj … o_proj, "
        "up_proj … down_proj, fc1 … fc2), found mlp.fc1, whose 128 features 3 ranks do not share "
        "evenly (try: --strategy fsdp --world N shares all parameters)");
  CHECK(RefusalOf(kTwoBlocks, Shared(2)).find("found none") != std::string::npos);
}

// A softmax of features needs those of all ranks.
TEST_CASE("what needs features of other ranks leaves its layers whole") {
  const std::string text = Replaced(kFeedForward, "Sigmoid", "Softmax");
  CHECK(RefusalOf(text, Shared(2)) == "");
}

TEST_CASE("layers that stay whole beside shared ones are told") {
  const std::string more =
      Replaced(Replaced(kFeedForward, "\"stem.weight\"", "\"attn.q_proj.weight\""), "/stem/",
               "/attn/q_proj/");
  const Program program = Build(more, Shared(2)).program;
  REQUIRE_FALSE(program.warnings.empty());
  const auto& [code, text] = program.warnings.back();
  CHECK(code == std::string(warning::kWholeLayers));
  CHECK(text ==
        "1 of 3 linear layers that plans of tensor parallelism name stay whole on each rank, the "
        "first attn.q_proj, beside which no layer takes parts of features");
}

TEST_CASE("plans know layers by the ends of their paths") {
  CHECK(ParallelStyleOf("model.layers.0.self_attn.q_proj") == ParallelStyle::kColumns);
  CHECK(ParallelStyleOf("bert.encoder.layer.0.attention.output.dense") == ParallelStyle::kRows);
  CHECK(ParallelStyleOf("model.layers.0.mlp.gate_up_proj") == ParallelStyle::kNone);
  CHECK(ParallelStyleOf("bert.pooler.dense") == ParallelStyle::kNone);
}

TEST_CASE("what is not known beside it is refused") {
  const auto refusal = [](void (*change)(TrainingSettings&)) {
    TrainingSettings settings = Shared(2);
    change(settings);
    return RefusalOf(kFeedForward, settings);
  };
  CHECK(refusal([](TrainingSettings& s) { s.clip_grad = true; }) ==
        "--tensor-parallel: expected without --clip-grad, beside which it is not known here");
  CHECK(refusal([](TrainingSettings& s) {
          s.ranks.strategy = Strategy::kFsdp;
        }).starts_with("--tensor-parallel: expected without --strategy"));
  CHECK(refusal([](TrainingSettings& s) {
          s.optimizer = Optimizer::kLion8bit;
        }).starts_with("--tensor-parallel: expected an optimizer of PyTorch's"));
}

}  // namespace onnxfit::tensor_parallel_test

// Ranks that share layers.
#include "estimator/transforms/tensor_parallel.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/libraries/libraries.h"
#include "estimator/memory/timeline.h"
#include "tests/checkpointed_net.h"
#include "tests/shared_layers_helpers.h"
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

// Four heads of 16 features, of 8 sequences of 32 tokens.
constexpr char kLayer[] = R"(
  net (float[8, 32, 64] x) => (float[8, 32, 64] y)
  < float[64, 64] "stem.weight" = ["location": "none"],
    float[64] "n1.weight" = ["location": "none"], float[64] "n1.bias" = ["location": "none"],
    float[64, 64] "attn.q_proj.weight" = ["location": "none"],
    float[64, 64] "attn.k_proj.weight" = ["location": "none"],
    float[64, 64] "attn.v_proj.weight" = ["location": "none"],
    float[64, 64] "attn.out_proj.weight" = ["location": "none"],
    float[64] "n2.weight" = ["location": "none"], float[64] "n2.bias" = ["location": "none"],
    float[64, 256] "mlp.fc1.weight" = ["location": "none"],
    float[256, 64] "mlp.fc2.weight" = ["location": "none"],
    int64[4] heads = {8, 32, 4, 16}, int64[3] tokens = {8, 32, 64} > {
    ["/stem/MatMul"] s = MatMul (x, "stem.weight")
    ["/n1/LayerNormalization"] n = LayerNormalization (s, "n1.weight", "n1.bias")
    ["/attn/q_proj/MatMul"] q = MatMul (n, "attn.q_proj.weight")
    ["/attn/k_proj/MatMul"] k = MatMul (n, "attn.k_proj.weight")
    ["/attn/v_proj/MatMul"] v = MatMul (n, "attn.v_proj.weight")
    ["/attn/Reshape"] qr = Reshape (q, heads)
    ["/attn/Transpose"] qh = Transpose <perm = [0, 2, 1, 3]> (qr)
    ["/attn/Reshape_1"] kr = Reshape (k, heads)
    ["/attn/Transpose_1"] kh = Transpose <perm = [0, 2, 3, 1]> (kr)
    ["/attn/Reshape_2"] vr = Reshape (v, heads)
    ["/attn/Transpose_2"] vh = Transpose <perm = [0, 2, 1, 3]> (vr)
    ["/attn/MatMul"] w = MatMul (qh, kh)
    ["/attn/Softmax"] p = Softmax <axis = -1> (w)
    ["/attn/MatMul_1"] o = MatMul (p, vh)
    ["/attn/Transpose_3"] ot = Transpose <perm = [0, 2, 1, 3]> (o)
    ["/attn/Reshape_3"] c = Reshape (ot, tokens)
    ["/attn/out_proj/MatMul"] a = MatMul (c, "attn.out_proj.weight")
    ["/Add"] r = Add (s, a)
    ["/n2/LayerNormalization"] m = LayerNormalization (r, "n2.weight", "n2.bias")
    ["/mlp/fc1/MatMul"] f = MatMul (m, "mlp.fc1.weight")
    ["/mlp/act/Gelu"] g = Gelu (f)
    ["/mlp/fc2/MatMul"] e = MatMul (g, "mlp.fc2.weight")
    ["/Add_1"] y = Add (r, e)
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
  CHECK(OpsOf(program, "mlp.fc1") == "from_local linear_of_columns ");
  CHECK(OpsOf(program, "mlp.fc2") == "linear_of_rows all_reduce ");
  CHECK(OpsOf(program, "stem") == "matmul ");
}

// Forward: a part of the bias, a part of the result, its sum.  Backward: the sum of gradients.
TEST_CASE("sums over ranks are new tensors, whose parts are let go behind them") {
  const std::string trace = TraceText(kFeedForward, Shared(2));
  CAPTURE(trace);
  const auto says = [&](std::string_view events) { return trace.find(events) != trace.npos; };
  CHECK(
      says("+/mlp/fc2/Gemm.scratch:256 +c.partial:65536 -/mlp/fc2/Gemm.scratch +c:65536 "
           "-c.partial"));
  CHECK(says("+s.grad:65536 -s.replicated.grad"));
}

// Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models" (2022):
// s b h (10 + 24 / t + 5 a s / (h t)) bytes of 16 bits, of which the dropouts that are not here
// have 1 and 1 of the 10, and of the last 5 three.
TEST_CASE("activations of a layer are those of the published form") {
  constexpr int64_t kTokens = 8 * 32;
  constexpr int64_t kHidden = 64;
  constexpr int64_t kScores = 8 * 4 * 32 * 32;
  const auto activations = [](int64_t ranks) {
    TrainingSettings settings = Shared(ranks);
    settings.precision = Precision::kBf16;
    settings.attention = AttentionUse::kEager;
    const Program program = Build(kLayer, settings).program;
    int64_t parameters = 0;
    for (const NameId name : program.parameters)
      parameters += onnxfit::BytesOf(program.values[Index(name)].type);
    return Replay(Train(program, settings)).steps[0].after_forward.requested_bytes - parameters;
  };
  const int64_t shared = kTokens * kHidden * 24 + 2 * kScores;
  CHECK(activations(1) - activations(2) == shared / 2);
  CHECK(activations(2) - activations(4) == shared / 4);
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
  const std::string text = AllReplaced(kFeedForward, "Sigmoid", "Softmax");
  CHECK(RefusalOf(text, Shared(2))
            .find("mlp.fc1, whose features softmax at /mlp/act/Softmax does "
                  "not leave to ranks") != std::string::npos);
}

TEST_CASE("layers that stay whole beside shared ones are told") {
  const std::string more =
      AllReplaced(AllReplaced(kFeedForward, "\"stem.weight\"", "\"attn.q_proj.weight\""), "/stem/",
                  "/attn/q_proj/");
  const Program program = Build(more, Shared(2)).program;
  REQUIRE_FALSE(program.warnings.empty());
  const auto& [code, text] = program.warnings.back();
  CHECK(code == std::string(warning::kWholeLayers));
  CHECK(text ==
        "1 of 3 linear layers that plans of tensor parallelism name stay whole on each rank, the "
        "first attn.q_proj, whose features mlp.fc1 takes from all ranks");
}

TEST_CASE("a head that is shared is put together behind its product") {
  const std::string text = AllReplaced(
      AllReplaced(kFeedForward, "\"head.weight\"", "\"lm_head.weight\""), "/head/", "/lm_head/");
  TrainingSettings settings = Shared(2);
  CHECK(OpsOf(Build(text, settings).program, "lm_head") == "matmul ");
  settings.ranks.shares_head = true;
  const Program program = Build(text, settings).program;
  CHECK(OpsOf(program, "lm_head") == "from_local matmul all_gather ");
  CHECK(BytesOf(program, "lm_head.weight") == 64 * 2 * 4 / 2);
  CHECK(BytesOf(program, "y.part") == 256 * 2 * 4 / 2);
  CHECK(BytesOf(program, "y") == 256 * 2 * 4);
  CHECK(RefusalOf(kFeedForward, settings).find("head: expected") != std::string::npos);
}

// Two dimensions of a mesh: rows of what a rank has of the layers that it shares, which come to the
// device last.
TEST_CASE("FSDP2 shards what is left of shared layers") {
  TrainingSettings settings = Shared(2);
  settings.ranks.strategy = Strategy::kFsdp;
  settings.ranks.world = 4;
  const std::string trace = TraceText(kFeedForward, settings);
  CAPTURE(trace);
  const auto place = [&](std::string_view events) { return trace.find(events); };
  const size_t whole = place("+head.weight:512");
  const size_t fc1 = place("+mlp.fc1.weight:4096 ");
  REQUIRE(fc1 != trace.npos);
  CHECK(whole < fc1);
  CHECK(place("+mlp.fc2.weight:4096 ") > fc1);
  CHECK(place("+mlp.fc1.weight:16384 ") > place("forward"));
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
          s.ranks.strategy = Strategy::kDdp;
        }).starts_with("--tensor-parallel: expected without --strategy"));
  CHECK(refusal([](TrainingSettings& s) {
          s.ranks.strategy = Strategy::kFsdp;
          s.ranks.fsdp_reshard = 2;
        }).starts_with("--tensor-parallel: expected without --fsdp-reshard"));
  CHECK(refusal([](TrainingSettings& s) {
          s.optimizer = Optimizer::kLion8bit;
        }).starts_with("--tensor-parallel: expected an optimizer of PyTorch's"));
}

}  // namespace onnxfit::tensor_parallel_test

// Ranks that share tokens between the layers that they share.
#include "estimator/transforms/shared_tokens.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/memory/timeline.h"
#include "estimator/transforms/shared_layers.h"
#include "estimator/writer/program_writer.h"
#include "tests/blocks_with_norms.h"
#include "tests/shared_layers_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::shared_tokens_test {
namespace {

TrainingSettings Shared(int64_t ranks) {
  TrainingSettings settings;
  settings.ranks.tensor_parallel = ranks;
  settings.ranks.shares_tokens = true;
  return settings;
}

Program Shared(std::string_view text, const TrainingSettings& settings) {
  return Build(text, settings).program;
}

Dims DimsOf(const Program& program, std::string_view name) {
  for (const ProgramValue& value : program.values) {
    if (value.name == name) return value.type.dims;
  }
  return {};
}

bool Says(const std::string& trace, std::string_view events) {
  CAPTURE(trace);
  return trace.find(events) != trace.npos;
}

}  // namespace

TEST_CASE("norms, sums and what rows make have the rank's tokens, columns are given all") {
  for (const int64_t ranks : {2, 4}) {
    const Program program = Shared(kBlocksWithNorms, Shared(ranks));
    for (const char* name : {"n0", "c0", "r0", "n1", "r1", "z"}) {
      CAPTURE(name);
      CHECK(DimsOf(program, name) == Dims{8, 32 / ranks, 64});
    }
    for (const char* name : {"s", "n0.all", "n1.all", "z.all", "c0.partial"}) {
      CAPTURE(name);
      CHECK(DimsOf(program, name) == Dims{8, 32, 64});
    }
    CHECK(DimsOf(program, "a0") == Dims{8, 32, 128 / ranks});
  }
}

TEST_CASE("ranks take tokens at the first block and have all of them behind the last norm") {
  const Program program = Shared(kBlocksWithNorms, Shared(2));
  CHECK(OpsOf(program, "h.0") == "take_tokens add ");
  CHECK(OpsOf(program, "h.0.norm") == "as_distributed layer_norm ");
  CHECK(OpsOf(program, "h.0.mlp") == "gather_tokens_of_all ");
  CHECK(OpsOf(program, "h.0.mlp.fc1") == "matmul ");
  CHECK(OpsOf(program, "h.0.mlp.fc2") == "matmul reduce_scatter ");
  CHECK(OpsOf(program, "h.1") == "add ");
  CHECK(OpsOf(program, "norm") == "as_distributed layer_norm gather_tokens ");
  CHECK(OpsOf(program, "head") == "matmul ");
}

// "x = x.to(float32)" in a norm is x, by whose new name torch.export calls it in what follows.
TEST_CASE("a cast in a norm that is none is no DTensor outside of it") {
  Program program = Build(kBlocksWithNorms, {}).program;
  const auto call_at = [&](std::string_view where) {
    return std::ranges::find(program.calls, where, &AtenCall::where);
  };
  const auto norm = call_at("/h.0/norm/LayerNormalization");
  const NameId given = norm->inputs[0];
  const NameId cast = AddValue(program, "cast", program.values[Index(given)].type);
  norm->inputs[0] = cast;
  call_at("/h.0/Add")->inputs[0] = cast;
  AtenCall casts = CallAt(*norm, "to", {given}, {cast});
  casts.where = "cast";
  casts.dies.clear();
  program.calls.insert(norm, casts);
  const RankSettings ranks = {.tensor_parallel = 2, .shares_tokens = true};
  FindSharedTokens(program, FindSharedLayers(program, ranks), 2, "");
  CHECK(call_at("/h.0/Add")->inputs[0] == given);
  CHECK(call_at("/h.0/norm/LayerNormalization")->inputs[0] == cast);
}

TEST_CASE("what the model returns is of all tokens, gathered once") {
  const std::string text = AllReplaced(kBlocksWithNorms, "(float[8, 32, 2] y)",
                                       "(float[8, 32, 64] z, float[8, 32, 2] y)");
  const Program program = Shared(text, Shared(2));
  CHECK(OpsOf(program, "norm") == "as_distributed layer_norm gather_tokens ");
  CHECK(NamesText(program, program.outputs) == " z.all y");
}

// What a norm of the last block is given is the block's own, which has returned by then.
TEST_CASE("tokens are gathered when the block has let go of what it was given") {
  const std::string text = AllReplaced(kBlocksWithNorms, "/norm/LayerNormalization\"] z",
                                       "/h.1/last/LayerNormalization\"] z");
  TrainingSettings settings = Shared(2);
  settings.mode = Mode::kEval;
  CHECK(Says(TraceText(text, settings), "-z.rstd -r1 +/head/MatMul.scratch:65536 +z.all:65536"));
}

// Forward: what ranks send comes rank by rank, then in order.  Backward: the reverse.
TEST_CASE("what is gathered and scattered is put in order in a tensor of its own") {
  const std::string trace = TraceText(kBlocksWithNorms, Shared(2));
  CHECK(Says(trace,
             "+/h.0/mlp/fc1/MatMul.scratch:65536 +n0.all:65536 "
             "-/h.0/mlp/fc1/MatMul.scratch"));
  CHECK(Says(trace,
             "+c0.partial.mm:65536 +/h.0/mlp/fc2/MatMul.scratch:65536 +c0:32768 "
             "-/h.0/mlp/fc2/MatMul.scratch"));
}

// What a rank takes of all tokens lies as they do, in dense memory: norms need no copy of it.
TEST_CASE("a rank's own tokens are a copy, whose gradient is gathered") {
  const std::string trace = TraceText(kBlocksWithNorms, Shared(2));
  CHECK(Says(trace, "+s.tokens:32768 +n0:32768"));
  CHECK(Says(trace, "+/h.0/norm/LayerNormalization.scratch:65536 +s.grad:65536"));
}

TEST_CASE("a batch of one comes in order") {
  const std::string one = AllReplaced(kBlocksWithNorms, "[8,", "[1,");
  CHECK(Says(TraceText(one, Shared(2)), "+n0.all:8192"));
  CHECK_FALSE(Says(TraceText(one, Shared(2)), "+/h.0/mlp/fc1/MatMul.scratch:8192 +n0.all"));
}

TEST_CASE("gradients of what is gathered add up to a new tensor") {
  const std::string text = AllReplaced(
      AllReplaced(kBlocksWithNorms, R"(["/h.0/mlp/act/Sigmoid"] b0 = Sigmoid (a0))",
                  R"(["/h.0/mlp/up_proj/MatMul"] u0 = MatMul (n0, "h.0.mlp.up_proj.weight")
    ["/h.0/mlp/Mul"] b0 = Mul (a0, u0))"),
      R"(float[128, 64] "h.0.mlp.fc2.weight")",
      R"(float[64, 128] "h.0.mlp.up_proj.weight" = ["location": "none"],
    float[128, 64] "h.0.mlp.fc2.weight")");
  TrainingSettings settings = Shared(2);
  CHECK(Says(TraceText(text, settings), "+sum of gradients:65536"));
  settings.ranks.shares_tokens = false;
  CHECK_FALSE(Says(TraceText(text, settings), "+sum of gradients:65536"));
}

// Korthikanti et al. (2022) have s b h (34 / t + 5 a s / (h t)) bytes: they gather what columns are
// given again in backward, and keep 1 / t of it.  PyTorch's layers keep what they are given: 2 of
// the 34 for each of the two blocks in a layer, of all tokens.  Here is the block of two linear
// layers alone: norm 2, what columns are given 2, the sigmoid's result 8 (GeLU keeps 8 more).
TEST_CASE("activations of a block are those of the published form, but for what is gathered") {
  constexpr int64_t kTokens = 8 * 32;
  constexpr int64_t kHidden = 64;
  const auto activations = [](int64_t ranks) {
    TrainingSettings settings = Shared(ranks);
    settings.precision = Precision::kBf16;
    const Program program = Shared(kBlocksWithNorms, settings);
    int64_t parameters = 0;
    for (const NameId name : program.parameters)
      parameters += BytesOf(program.values[Index(name)].type);
    return Replay(Train(program, settings)).steps[0].after_forward.requested_bytes - parameters;
  };
  const int64_t inner = kTokens * kHidden * 2 * 2;    // of each block, of 128 features
  const int64_t between = 2 * kTokens * kHidden * 2;  // what norms of blocks are given
  const int64_t last = kTokens * kHidden * 2;         // what the last norm is given
  const int64_t statistics = 3 * 2 * kTokens * 4;     // of three norms, in fp32
  const int64_t shared = 2 * inner + between + last + statistics;
  CHECK(activations(2) - activations(4) == shared / 4);
}

TEST_CASE("tensors of norms are on no device before they are shared") {
  const Program program = Shared(kBlocksWithNorms, Shared(2));
  std::string shared = NamesText(program, program.shared);
  CHECK(shared.find("h.0.norm.weight") != shared.npos);
  CHECK(shared.find("stem.weight") == shared.npos);
}

TEST_CASE("tokens that ranks do not share evenly are refused") {
  CHECK(RefusalOf(AllReplaced(kBlocksWithNorms, "32, 64", "33, 64"), Shared(2)) ==
        "<text>: --sequence-parallel: expected tokens that 2 ranks share evenly, found 33 (try: "
        "without --sequence-parallel)");
}

// A mean over tokens needs those of all ranks.
TEST_CASE("blocks that need all tokens elsewhere are refused") {
  const std::string text = AllReplaced(kBlocksWithNorms, R"(["/h.0/Add"] r0 = Add (s, c0))",
                                       R"(["/h.0/ReduceMean"] q0 = ReduceMean <axes = [1]> (c0)
    ["/h.0/Add"] r0 = Add (s, q0))");
  CHECK(RefusalOf(text, Shared(2))
            .find("expected blocks that leave tokens to ranks, but mean at /h.0/ReduceMean needs "
                  "all of them") != std::string::npos);
}

TEST_CASE("layers outside of blocks are given all tokens, and make them") {
  const std::string text =
      AllReplaced(AllReplaced(kBlocksWithNorms, R"(["/stem/MatMul"] s = MatMul (x, "stem.weight"))",
                              R"(["/stem/fc1/MatMul"] p = MatMul (x, "stem.fc1.weight")
    ["/stem/fc2/MatMul"] s = MatMul (p, "stem.fc2.weight"))"),
                  R"(float[64, 64] "stem.weight" = ["location": "none"])",
                  R"(float[64, 64] "stem.fc1.weight" = ["location": "none"],
    float[64, 64] "stem.fc2.weight" = ["location": "none"])");
  const Program program = Shared(text, Shared(2));
  CHECK(OpsOf(program, "stem.fc1") == "from_local matmul ");
  CHECK(OpsOf(program, "stem.fc2") == "matmul all_reduce ");
  CHECK(DimsOf(program, "p") == Dims{8, 32, 32});
  CHECK(DimsOf(program, "s") == Dims{8, 32, 64});
  CHECK(DimsOf(program, "c0") == Dims{8, 16, 64});
}

// Rows of tokens without a batch would be shared by features.
TEST_CASE("each row's result in a block has tokens") {
  const std::string text = AllReplaced(
      kBlocksWithNorms, R"(["/h.1/mlp/fc1/MatMul"] a1 = MatMul (n1, "h.1.mlp.fc1.weight")
    ["/h.1/mlp/act/Sigmoid"] b1 = Sigmoid (a1)
    ["/h.1/mlp/fc2/MatMul"] c1 = MatMul (b1, "h.1.mlp.fc2.weight"))",
      R"(["/h.1/mlp/Flatten"] f1 = Flatten <axis = 2> (n1)
    ["/h.1/mlp/fc1/MatMul"] a1 = MatMul (f1, "h.1.mlp.fc1.weight")
    ["/h.1/mlp/act/Sigmoid"] b1 = Sigmoid (a1)
    ["/h.1/mlp/fc2/MatMul"] g1 = MatMul (b1, "h.1.mlp.fc2.weight")
    ["/h.1/mlp/Reshape"] c1 = Reshape (g1, shape))");
  const std::string with_shape = AllReplaced(text, R"(float[64, 64] "stem.weight")",
                                             R"(int64[3] shape = {8, 32, 64},
    float[64, 64] "stem.weight")");
  CHECK(RefusalOf(with_shape, Shared(2))
            .find("expected blocks that leave tokens to ranks, but h.1 has no [batch, tokens, "
                  "features]") != std::string::npos);
}

TEST_CASE("optimizers that were not seen with parts of norms' gradients are refused") {
  TrainingSettings settings = Shared(2);
  settings.optimizer = Optimizer::kRmsprop;
  CHECK(RefusalOf(kBlocksWithNorms, settings)
            .starts_with("--sequence-parallel: expected adam or adamw"));
  settings.ranks.strategy = Strategy::kFsdp;
  CHECK(RefusalOf(kBlocksWithNorms, settings).empty());
}

}  // namespace onnxfit::shared_tokens_test

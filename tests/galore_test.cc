// GaLore: which matrices it projects, and what its step holds.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/fit/estimate.h"
#include "estimator/optimizers/galore_step.h"
#include "estimator/optimizers/projected_matrices.h"
#include "estimator/workspaces/cusolver_workspaces.h"
#include "tests/blocks_with_norms.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::galore_test {
namespace {

TrainingSettings WithGaLore(const GaLoreSettings& galore, Precision precision = Precision::kFp32) {
  TrainingSettings settings = {
      .precision = precision, .optimizer = Optimizer::kGaLore, .loss = Loss::kMse, .steps = 2};
  settings.galore = galore;
  return settings;
}

// "name 128x64" of each.
std::string ProjectedIn(const Program& program) {
  std::string text;
  for (const auto& [parameter, dims] : program.projected) {
    const std::string& name = program.values[Index(parameter)].name;
    text += fmt::format("{}{} {}x{}", text.empty() ? "" : " ", name, dims[0], dims[1]);
  }
  return text;
}

// --- Which matrices -------------------------------------------------------------------------

// transformers' check_target_module_exists of such names.
TEST_CASE("names pick the layers that have them in theirs") {
  struct Row {
    std::vector<std::string> targets;
    std::string_view projected;
  };
  constexpr std::string_view kFirst = "h.0.mlp.fc1.weight 128x64";
  const Row rows[] = {
      {{},
       "h.0.mlp.fc1.weight 128x64 h.0.mlp.fc2.weight 64x128 h.1.mlp.fc1.weight 128x64 "
       "h.1.mlp.fc2.weight 64x128"},
      {{"fc2"}, "h.0.mlp.fc2.weight 64x128 h.1.mlp.fc2.weight 64x128"},
      {{"0.mlp.fc1"}, kFirst},
      {{"*.0.mlp.?c1"}, kFirst},
      {{"head", "stem"}, "stem.weight 64x64 head.weight 2x64"},
      {{"all-linear"},
       "stem.weight 64x64 h.0.mlp.fc1.weight 128x64 h.0.mlp.fc2.weight 64x128 "
       "h.1.mlp.fc1.weight 128x64 h.1.mlp.fc2.weight 64x128 head.weight 2x64"}};
  for (const auto& [targets, projected] : rows) {
    const TrainingSettings settings = WithGaLore({.rank = 4, .targets = targets});
    CHECK(ProjectedIn(Build(kBlocksWithNorms, settings).program) == projected);
  }
  CHECK_THROWS_WITH_AS(Build(kBlocksWithNorms, WithGaLore({.targets = {"fc3"}})),
                       doctest::Contains("--galore: expected names of linear layers"), Error);
}

TEST_CASE("other optimizers project nothing, nor does inference") {
  TrainingSettings settings = WithGaLore({.targets = {"fc3"}});
  settings.mode = Mode::kEval;
  CHECK(Build(kBlocksWithNorms, settings).program.projected.empty());
  settings = WithGaLore({});
  settings.optimizer = Optimizer::kAdamW;
  CHECK(Build(kBlocksWithNorms, settings).program.projected.empty());
}

// GPT-2's, whose head has the weight of its embedding.
TEST_CASE("Conv1D lies the other way, and is none of the Trainer's") {
  const Graph gpt2 = LoadGraph(std::string(kSourceDir) + "/models/gpt2.dynamo.onnx");
  TrainingSettings settings = WithGaLore({.targets = {"all-linear"}});
  settings.loss = Loss::kCrossEntropy;
  const std::string projected = ProjectedIn(Build(gpt2, settings).program);
  CHECK(projected.starts_with("model.transformer.h.0.attn.c_attn.weight 768x2304 "));
  CHECK(projected.ends_with(".h.11.mlp.c_proj.weight 3072x768"));
  settings.loop.library = LoopLibrary::kTrainer;
  CHECK_THROWS_WITH_AS(Build(gpt2, settings),
                       doctest::Contains("expected linear layers (nn.Linear)"), Error);
}

TEST_CASE("a model without layers of GaLore's names is told how to name some") {
  constexpr char kNet[] = R"(
    net (float[2, 6] x) => (float[2, 4] y) < float[6, 4] "fc.weight" = ["location": "none"] > {
      ["/fc/MatMul"] y = MatMul (x, "fc.weight")
    })";
  CHECK_THROWS_WITH_AS(Build(kNet, WithGaLore({})),
                       doctest::Contains("(try: --galore 128:all-linear, or names such as fc)"),
                       Error);
}

// --- What is held ---------------------------------------------------------------------------

// A layer of 6 × 4 elements, which is projected, and its bias of 16 bytes.
constexpr char kLayer[] = R"(
  net (float[2, 3, 6] x) => (float[2, 3, 4] y)
  < float[6, 4] "mlp.fc.weight" = ["location": "none"],
    float[4] "mlp.fc.bias" = ["location": "none"] > {
    ["/mlp/fc/MatMul"] h = MatMul (x, "mlp.fc.weight")
    ["/mlp/fc/Add"] y = Add (h, "mlp.fc.bias")
  })";

// The same the other way round: 4 × 6, whose bias has 24 bytes.
constexpr char kTallLayer[] = R"(
  net (float[2, 3, 4] x) => (float[2, 3, 6] y)
  < float[4, 6] "mlp.fc.weight" = ["location": "none"],
    float[6] "mlp.fc.bias" = ["location": "none"] > {
    ["/mlp/fc/MatMul"] h = MatMul (x, "mlp.fc.weight")
    ["/mlp/fc/Add"] y = Add (h, "mlp.fc.bias")
  })";

// What the optimizer's part of a step allocates and frees, by bytes: "+96 -96".
std::string StepOf(const TrainingSettings& settings, int32_t step, const char* net = kLayer) {
  const Trace trace = Train(Build(net, settings).program, settings);
  std::string text;
  bool inside = false;
  for (const Event& event : trace.events) {
    const bool made = event.type == Event::Type::kAlloc;
    if (event.type == Event::Type::kPhase)
      inside = event.id == step && event.phase == Phase::kOptimizer;
    if (!inside || (!made && event.type != Event::Type::kFree)) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", made ? '+' : '-',
                        trace.buffers[Index(event.id)].bytes);
  }
  return text;
}

std::string Workspace(int64_t m, int64_t n) {
  return fmt::format("+{0} -{0} ", SvdWorkspaceBytes(m, n));
}

// By galore-torch 1.0: a gradient of 4 x 6 becomes one of 2 x 6 by columns of U, of which all are
// kept.
TEST_CASE("GaLore finds a basis, steps in it, and comes back") {
  const TrainingSettings settings = WithGaLore({.rank = 2});
  const std::string factors = "+64 +96 +16 +4 +96 " + Workspace(4, 6) + "-96 +1 +1 -1 -1 -4 ";
  const std::string unread = "+16 +48 -16 -16 -96 -48 ";
  const std::string update = "+48 -16 +48 -16 +96 +96 -96 -48 -48 -48 -96";
  CHECK(StepOf(settings, 1) == "+16 +16 +16 +16 " + factors + unread + "+48 +48 +48 " + update);
  CHECK(StepOf(settings, 2) == "+16 +16 " + factors + unread + "-64 +48 " + update);
}

TEST_CASE("of a matrix that is taller, GaLore keeps Vh") {
  const std::string factors = "+96 +64 +16 +4 +96 " + Workspace(6, 4) + "-96 +1 +1 -1 -1 -4 ";
  const std::string unread = "+16 +48 -16 -96 -16 -48 ";
  const std::string update = "+48 -24 +48 -24 +96 +96 -96 -48 -48 -48 -96";
  CHECK(StepOf(WithGaLore({.rank = 2}), 2, kTallLayer) ==
        "+24 +24 " + factors + unread + "-64 +48 " + update);
}

// Its two columns alone are kept then.
TEST_CASE("gradients of 16 bits are decomposed in fp32") {
  const std::string factors = "+96 +64 +96 +16 +4 +96 " + Workspace(4, 6) + "-96 +1 +1 -1 -1 -4 ";
  const std::string unread = "+16 +48 -16 +16 -96 -64 -16 -96 -48 ";
  const std::string update = "+24 -8 +24 -8 +48 +48 -48 -24 -24 -24 -48";
  CHECK(StepOf(WithGaLore({.rank = 2}, Precision::kBf16), 2) ==
        "+8 +8 " + factors + unread + "-16 +24 " + update);
}

// Each projected matrix keeps a square of its smaller side, and moments of its rank times the
// larger; the others are AdamW's.
TEST_CASE("GaLore's states are a product") {
  constexpr int64_t kRank = 8;
  constexpr int64_t kSmall = 64;
  constexpr int64_t kLarge = 128;
  constexpr int64_t kProjected = 4;  // of fc1 and fc2
  constexpr int64_t kOthers = 64 * 64 + 64 * 2 + 6 * 64;
  const TrainingSettings settings = WithGaLore({.rank = kRank});
  const Trace trace = Train(Build(kBlocksWithNorms, settings).program, settings);
  int64_t bytes = 0;
  std::vector<bool> is_state(trace.buffers.size());
  for (const Event& event : trace.events) {
    const bool has_kind = event.type == Event::Type::kAlloc || event.type == Event::Type::kKind;
    if (has_kind) is_state[Index(event.id)] = event.kind == Kind::kOptimizerState;
    if (event.type == Event::Type::kFree) is_state[Index(event.id)] = false;
  }
  for (size_t i = 0; i < is_state.size(); ++i) {
    if (is_state[i]) bytes += trace.buffers[i].bytes;
  }
  CHECK(bytes == 4 * (kProjected * (kSmall * kSmall + 2 * kRank * kLarge) + 2 * kOthers));
}

// A basis is found of all columns that there are.
TEST_CASE("a rank above both sides is theirs") {
  CHECK(StepOf(WithGaLore({.rank = 100}), 2) == StepOf(WithGaLore({.rank = 4}), 2));
}

TEST_CASE("a hook steps GaLore's parameters, too") {
  TrainingSettings settings = WithGaLore({.rank = 2});
  settings.optimizer_in_backward = true;
  CHECK(StepOf(settings, 2).empty());
}

// As torch 2.11.0+cu130 asked for on an H200.
TEST_CASE("what cuSOLVER asks for to decompose") {
  struct Row {
    int64_t m;
    int64_t n;
    int64_t bytes;
  };
  const Row rows[] = {
      // Squares, of tiles of 32.
      {32, 32, 3968},
      {33, 33, 29568},
      {64, 64, 53632},
      {300, 300, 808960},
      {513, 513, 2255616},
      {768, 768, 4931712},
      {4096, 4096, 135549440},
      // A factorization first; then the product of the factors takes more.
      {768, 2, 3145984},
      {128, 127, 3146368},
      {999, 333, 3745280},
      {3072, 768, 16784384},
      {11008, 4096, 267420672},
      {50257, 64, 64740096},
      // Wide ones, which are turned round.
      {2, 768, 3152128},
      {65, 129, 3179904},
      {333, 999, 5075968},
      {768, 3072, 26221568},
      {4096, 11008, 447775744},
  };
  for (const auto& [m, n, bytes] : rows) CHECK(SvdWorkspaceBytes(m, n) == bytes);
}

}  // namespace
}  // namespace onnxfit::galore_test

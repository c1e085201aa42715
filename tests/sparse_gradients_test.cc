// embedding(sparse=True): gradients are rows and indices.  Events of torch 2.11.0, of a table of
// 50,000 rows of 128 numbers and 1,024 x 20 indices of a batch.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "tests/pt2_helpers.h"
#include "tests/trace_helpers.h"

namespace onnxfit::sparse_gradients_test {
namespace {

using namespace onnxfit::pt2;  // NOLINT(google-build-using-namespace): its helpers

constexpr int64_t kRows = 50'000;
constexpr int64_t kWidth = 128;
constexpr int64_t kTable = 4 * kRows * kWidth;
constexpr int64_t kValues = 4 * 1024 * 20 * kWidth;
constexpr int64_t kIndices = 8 * 1024 * 20;

// The table is read `times` times; what was read is summed up, and its square is the loss.
Program Looked(const TrainingSettings& settings, int times = 1) {
  ExportedBuilder builder;
  builder.Parameter("p_e", "e.weight", {kRows, kWidth}).Input("x", {20}, DType::kInt64);
  static const char* const kNames[] = {"a", "b", "c"};
  static const char* const kSums[] = {"a", "ab", "abc"};
  for (int i = 0; i < times; ++i) {
    builder.Make("torch.ops.aten.embedding.default", kNames[i],
                 {{"weight", Ref("p_e")}, {"indices", Ref("x")}, {"sparse", Bool(true)}},
                 {20, kWidth});
    if (i == 0) continue;
    builder.Make("torch.ops.aten.add.Tensor", kSums[i],
                 {{"self", Ref(kSums[i - 1])}, {"other", Ref(kNames[i])}}, {20, kWidth});
  }
  const onnxfit::Graph file = InputGraph(builder.Return(kSums[times - 1]));
  return PrepareRun(file, {.binding = {.batch = 1024}, .settings = settings}).program;
}

TrainingSettings By(Optimizer optimizer) {
  return {.optimizer = optimizer, .loss = Loss::kMse, .steps = 2};
}

// What lives behind each backward pass of the last step beside the table and states, by bytes.
std::string Allocated(const TrainingSettings& settings, Phase phase, int times = 1) {
  const Trace trace = Train(Looked(settings, times), settings);
  std::string text;
  bool inside = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) inside = event.id == 1 && event.phase == phase;
    if (!inside || event.type != Event::Type::kAlloc) continue;
    const int64_t bytes = trace.buffers[Index(event.id)].bytes;
    text += fmt::format("{}{}", text.empty() ? "" : " ", bytes);
  }
  return text;
}

TEST_CASE("a sparse gradient is the incoming one, and no table") {
  const std::string backward = Allocated(By(Optimizer::kSgd), Phase::kBackward);
  CHECK(backward.find(std::to_string(kTable)) == std::string::npos);
  CHECK(backward.find(std::to_string(kValues)) != std::string::npos);
}

TEST_CASE("two sparse gradients are joined, indices first") {
  const std::string backward = Allocated(By(Optimizer::kSgd), Phase::kBackward, 2);
  CHECK(backward.find(fmt::format("{} {}", 2 * kIndices, 2 * kValues)) != std::string::npos);
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST_CASE("optimizers of sparse gradients sort their indices") {
  struct Row {
    Optimizer optimizer;
    std::string step;
  };
  const std::string joins = fmt::format("{0} {0} {0} 328191 1279", kIndices);
  const std::string joined = fmt::format(" {}", kValues);  // every row that is looked up differs
  const Row rows[] = {
      {Optimizer::kSgd, ""},
      {Optimizer::kAdagrad, joins + Times(3, joined)},
      {Optimizer::kSparseAdam, fmt::format("{0} {0} {1}", kTable, joins) + Times(6, joined)}};
  for (const Row& row : rows) {
    CAPTURE(ToString(row.optimizer));
    const std::string step = Allocated(By(row.optimizer), Phase::kOptimizer);
    CHECK(step.substr(0, row.step.size()) == row.step);
    CHECK(step.empty() == row.step.empty());
  }
}

TEST_CASE("a table has no more rows that differ than rows") {
  const std::string step = Allocated(By(Optimizer::kAdagrad), Phase::kOptimizer, 3);
  CHECK(step.find(fmt::format(" {0} {0} {0}", kTable)) != std::string::npos);
}

std::string ErrorOf(const TrainingSettings& settings) {
  try {
    Train(Looked(settings), settings);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("other optimizers are refused, with what PyTorch does") {
  CHECK(ErrorOf(By(Optimizer::kAdam)) ==
        "parameter 'e.weight': an optimizer of sparse gradients was expected "
        "(embedding(sparse=True)), found adam: it raises an error (try: --optimizer "
        "sparse-adam)");
  CHECK(ErrorOf(By(Optimizer::kSgdMomentum)).find("grows without end") != std::string::npos);
  CHECK(ErrorOf(By(Optimizer::kSgd)).empty());
}

}  // namespace
}  // namespace onnxfit::sparse_gradients_test

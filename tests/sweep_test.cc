#include "estimator/fit/sweep.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace onnxfit::sweep_test {
namespace {

// Two inputs that are added: A and B have to be equal, or one of them 1.
Graph Sum() {
  const TempFolder folder;
  return LoadGraph(folder.Write("sum.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
sum (float[N, A] a, float[N, B] b) => (float[N, C] y) {
  y = Add(a, b)
})"));
}

// "batch seq precision optimizer" of each request.
std::string Text(const std::vector<EstimateRequest>& requests) {
  std::string text;
  for (const EstimateRequest& r : requests) {
    text += std::to_string(r.binding.batch.value_or(0));
    for (const auto& [name, size] : r.binding.dims) text += " " + name + std::to_string(size);
    text += " " + std::string(ToString(r.settings.precision)) + " " +
            std::string(ToString(r.settings.optimizer)) + "\n";
  }
  return text;
}

const EstimateRequest kEval = {.settings = {.mode = Mode::kEval}};

}  // namespace

TEST_CASE("combinations come as typed, the last axis fastest") {
  const Sweep sweep = {.batches = {16, 8},
                       .dims = {{"seq", {2, 4}}, {"past", {9}}},
                       .precisions = {Precision::kBf16},
                       .optimizers = {Optimizer::kSgd, Optimizer::kAdam}};
  EstimateRequest request = {.binding = {.batch = 7, .dims = {{"head", 3}}}, .why = "x"};
  request.details = true;
  const std::vector<EstimateRequest> all = Combinations(request, sweep);
  CHECK(Text(all) ==
        "16 head3 past9 seq2 bf16 sgd\n16 head3 past9 seq2 bf16 adam\n"
        "16 head3 past9 seq4 bf16 sgd\n16 head3 past9 seq4 bf16 adam\n"
        "8 head3 past9 seq2 bf16 sgd\n8 head3 past9 seq2 bf16 adam\n"
        "8 head3 past9 seq4 bf16 sgd\n8 head3 past9 seq4 bf16 adam\n");
  CHECK(CountCombinations(sweep) == 8);
  CHECK(all[0].why.empty());
  CHECK(!all[0].details);
}

TEST_CASE("what does not vary has the request's value") {
  CHECK(Text(Combinations({.binding = {.batch = 7}}, {})) == "7 fp32 adamw\n");
  CHECK(CountCombinations({}) == 1);
  CHECK(Sweep().empty());
  CHECK(!Sweep{.dims = {{"seq", {1, 2}}}}.empty());
}

TEST_CASE("combinations are counted until 63 bits do not hold them") {
  const SweptDim thousands = {"d", std::vector<int64_t>(1 << 16, 1)};
  Sweep sweep = {.dims = {thousands, thousands, thousands}};
  CHECK(CountCombinations(sweep) == int64_t{1} << 48);
  sweep.dims.push_back(thousands);
  CHECK(!CountCombinations(sweep));
}

TEST_CASE("every row is what one estimate says") {
  const Graph graph = LoadGraph(std::string(kSourceDir) + "/models/lenet.onnxtxt");
  const Sweep sweep = {.batches = {1, 64, 32, 8},
                       .precisions = {Precision::kFp32, Precision::kAmpBf16},
                       .optimizers = {Optimizer::kSgd, Optimizer::kAdamW}};
  const SweepAnswer answer = RunSweep(graph, {}, sweep, 2);
  REQUIRE(answer.rows.size() == 16);
  for (const SweepRow& row : answer.rows) {
    const Estimate alone = MakeEstimate(graph, row.request);
    REQUIRE(row.estimate.has_value());
    CHECK(row.error.empty());
    CHECK(row.estimate->batch == alone.batch);
    CHECK(row.estimate->device_bytes == alone.device_bytes);
    CHECK(row.estimate->peak.exact_bytes == alone.peak.exact_bytes);
    CHECK(row.estimate->settings.optimizer == alone.settings.optimizer);
    CHECK(row.estimate->largest.size() == 2);
  }
}

TEST_CASE("a combination without an answer is a row that says why") {
  const Sweep sweep = {.dims = {{"A", {3, 4}}, {"B", {3, 4}}}};
  const SweepAnswer answer = RunSweep(Sum(), kEval, sweep, 0);
  REQUIRE(answer.rows.size() == 4);
  for (const size_t row : {0U, 3U}) {
    CHECK(answer.rows[row].estimate.has_value());
    CHECK(answer.rows[row].error.empty());
  }
  for (const size_t row : {1U, 2U}) {
    CHECK(!answer.rows[row].estimate.has_value());
    CHECK(answer.rows[row].error.find("Add") != std::string::npos);
  }
  CHECK(Summarize(answer).answered == 2);
}

TEST_CASE("where no combination has an answer, the first one's error is thrown") {
  const auto error_of = [](const Sweep& sweep) -> std::string {
    try {
      RunSweep(Sum(), kEval, sweep, 0);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of({.batches = {1, 2}, .dims = {{"nope", {5, 6}}}}).find("--dim nope=5: ") !=
        std::string::npos);
  CHECK(error_of({.dims = {{"A", {3, 4}}, {"B", {3, 4}}}}).empty());
}

TEST_CASE("a table in a line: how many answers, the smallest and the largest, verdicts") {
  SweepAnswer answer;
  for (const int64_t bytes : {0, 50, 20, 70}) {
    SweepRow& row = answer.rows.emplace_back();
    if (bytes == 0) continue;
    row.estimate.emplace().device_bytes = bytes;
    JudgedTarget judged;
    judged.judgement.verdict = bytes == 70 ? Verdict::kOom : Verdict::kFits;
    row.estimate->targets = {judged, judged};
  }
  const SweepSummary summary = Summarize(answer);
  CHECK(summary.answered == 3);
  CHECK(summary.low_bytes == 20);
  CHECK(summary.high_bytes == 70);
  CHECK(summary.verdicts == std::array<size_t, 3>{4, 0, 2});
}

}  // namespace onnxfit::sweep_test

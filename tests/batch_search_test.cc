#include "estimator/fit/batch_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/cards.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/max_batch.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/temp_folder.h"

namespace onnxfit::batch_search_test {
namespace {

Graph Model(const std::string& name) {
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
}

Target CardOf(int64_t bytes) {
  Target target = {.name = "card", .device = DefaultDevice(), .total_bytes = bytes};
  target.device.context = {};
  return target;
}

// What the models here leave open is answered: one reading.
const EstimateRequest kInPlace = {
    .settings = {.in_place = InPlaceUse::kAlways, .batch_norm = BatchNormUse::kKeep}};

constexpr int64_t kMost = 170;  // no card here holds so many

// The definition to the letter: every batch is predicted and judged.
class SlowSearch {
 public:
  explicit SlowSearch(const Graph& graph) {
    EstimateRequest request = kInPlace;
    for (int64_t batch = 1; batch <= kMost; ++batch) {
      request.binding.batch = batch;
      runs_.push_back(std::make_unique<LoopedPrediction>(PredictLoop(graph, request)));
    }
  }

  PlayableRun At(int64_t batch) const { return runs_[static_cast<size_t>(batch) - 1]->playable(); }

  int64_t PeakBytes(int64_t batch) const {
    const PlayableRun run = At(batch);
    return PeakBlockBytes(*run.loop, run.bytes);
  }

  // By batch; there is none of 0.
  std::vector<Verdict> Verdicts(const Target& target) const {
    std::vector<Verdict> verdicts = {Verdict::kOom};
    for (int64_t batch = 1; batch <= kMost; ++batch) {
      verdicts.push_back(Judge(At(batch), target).verdict);
    }
    return verdicts;
  }

 private:
  std::vector<std::unique_ptr<LoopedPrediction>> runs_;
};

std::vector<bool> Runs(const std::vector<Verdict>& verdicts, bool is_strict) {
  std::vector<bool> runs;
  for (const Verdict verdict : verdicts) {
    runs.push_back(verdict == Verdict::kFits || (verdict == Verdict::kTight && !is_strict));
  }
  return runs;
}

bool AllRun(const std::vector<bool>& runs, int64_t first, int64_t last) {
  for (int64_t batch = first; batch <= last; ++batch) {
    if (batch > kMost || !runs[static_cast<size_t>(batch)]) return false;
  }
  return true;
}

int64_t LargestOf(const std::vector<bool>& runs, const BatchLimits& limits) {
  for (int64_t batch = std::min(kMost, limits.most.value_or(kMost)); batch > 0; --batch) {
    if (batch % limits.multiple_of != 0) continue;
    if (AllRun(runs, batch - batch / 50, batch + batch / 50)) return batch;
  }
  return 0;
}

const BatchLimits kLimits[] = {{},           {.multiple_of = 8}, {.multiple_of = 7, .most = 100},
                               {.most = 64}, {.most = 1},        {.multiple_of = 1000}};

std::string ErrorOf(const Graph& graph, const Target& target) {
  try {
    FindMaxBatches(graph, kInPlace, {&target, 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the largest batch is the one that the definition names") {
  int answers = 0;
  for (const char* name : {"lenet.onnxtxt", "vgg_small.onnxtxt", "residual_block.onnxtxt",
                           "depthwise_separable.onnxtxt", "mlp_2000.onnxtxt"}) {
    const std::string model = name;
    CAPTURE(model);
    const Graph graph = Model(model);
    const SlowSearch slow(graph);
    const EstimateRequest request = kInPlace;
    const Study study(graph);
    BatchPrograms programs(study, request);
    BatchLoops loops(programs, request);
    // Around what a batch asks for, and around whole segments.
    std::vector<int64_t> sizes = {1 * kMiB, 42 * kMiB, slow.PeakBytes(1), slow.PeakBytes(99)};
    for (const int64_t batch : {20, 55, 120, 150})
      sizes.push_back(slow.PeakBytes(batch) + 5 * kMiB);
    for (const int64_t size : sizes) {
      if (slow.PeakBytes(kMost) <= size) continue;
      const Target target = CardOf(size);
      const std::vector<Verdict> verdicts = slow.Verdicts(target);
      for (const bool is_strict : {false, true}) {
        const std::vector<bool> runs = Runs(verdicts, is_strict);
        for (const BatchLimits& limits : kLimits) {
          CAPTURE(size);
          CAPTURE(is_strict);
          CAPTURE(limits.multiple_of);
          BatchSearch search(loops, target, is_strict);
          const int64_t expected = LargestOf(runs, limits);
          CHECK(search.Largest(limits) == expected);
          answers += expected > 0 ? 1 : 0;
        }
      }
    }
  }
  CHECK(answers > 100);
}

TEST_CASE("a batch below that fails rules out those that stand for it") {
  const Graph graph = Model("resnet18.train.onnx");
  const SlowSearch slow(graph);
  const EstimateRequest request = kInPlace;
  const Study study(graph);
  BatchPrograms programs(study, request);
  BatchLoops loops(programs, request);
  for (const int64_t batch : {78, 85}) {
    CAPTURE(batch);
    const Target target = CardOf(slow.PeakBytes(batch) * 110 / 100);
    std::vector<bool> runs;
    for (int64_t tried = 0; tried <= kMost; ++tried) {
      runs.push_back(tried > 0 && RunsOn(slow.At(tried), target));
    }
    CHECK(LargestOf(runs, {}) == batch);
    CHECK(AllRun(runs, batch + 3, batch + 4));  // whose window holds one that fails
    CHECK(BatchSearch(loops, target).Largest({}) == batch);
  }
}

TEST_CASE("what is around the answer: the first failure, and luckier ones beyond") {
  const Graph graph = Model("vgg_small.onnxtxt");
  const SlowSearch slow(graph);
  int with_luck = 0;
  for (int64_t batch = 60; batch <= 150; batch += 10) {
    const Target target = CardOf(slow.PeakBytes(batch) + 4 * kMiB);
    CAPTURE(batch);
    const std::vector<bool> runs = Runs(slow.Verdicts(target), false);
    const MaxBatch found = FindMaxBatches(graph, kInPlace, {&target, 1})[0];
    CHECK(found.batch == LargestOf(runs, {}));
    REQUIRE(found.next.has_value());
    const int64_t next = found.next->batch;
    CHECK(AllRun(runs, found.batch, next - 1));
    CHECK(!AllRun(runs, next, next));
    CHECK(found.next->judgement.verdict == Verdict::kOom);
    std::vector<int64_t> luckier;
    for (int64_t more = next + 1; more <= kMost; ++more) {
      if (AllRun(runs, more, more)) luckier.push_back(more);
    }
    CHECK(found.luckier == luckier);
    CHECK(!found.is_limited);
    with_luck += luckier.empty() ? 0 : 1;
  }
  CHECK(with_luck > 0);
}

TEST_CASE("what tensors take at the peak is a line in the batch") {
  const Graph graph = Model("vgg_small.onnxtxt");
  const Target target = CardOf(600 * kMiB);
  const MaxBatch found = FindMaxBatches(graph, kInPlace, {&target, 1})[0];
  REQUIRE(found.batch > 1);
  for (const int64_t batch : {found.batch, found.batch / 2}) {
    EstimateRequest request = kInPlace;
    request.binding.batch = batch;
    const LoopedPrediction looped = PredictLoop(graph, request);
    const int64_t peak = PeakBlockBytes(looped.loop, looped.playable().bytes);
    CHECK(std::abs(found.fixed_bytes + batch * found.per_sample_bytes - peak) <= batch);
  }
}

// Every sample against all of them: [N, N].
TEST_CASE("what grows with the square of the batch is on no line") {
  const Graph graph = ParseGraph(R"(net (float[N, 8] x) => (float[N, N] y)
    < float[8, 8] w = ["location": "none"] > {
      a = MatMul (x, w)
      b = Transpose <perm = [1, 0]> (x)
      y = MatMul (a, b)
    })");
  const Target target = CardOf(600 * kMiB);
  const MaxBatch found = FindMaxBatches(graph, {}, {&target, 1})[0];
  REQUIRE(found.batch > 1);
  CHECK(found.per_sample_bytes == 0);
  CHECK(found.fixed_bytes == 0);
  CHECK(found.grows_faster);
}

// Beside 320 MiB of parameters and states the squares bend the line, and do not outgrow it.
TEST_CASE("what grows with the square beside much that stays is not said to") {
  const Graph graph = ParseGraph(R"(net (float[N, 8] x) => (float[N, N] y)
    < float[8, 8] w = ["location": "none"], float[8, 2097152] wide = ["location": "none"],
      float[2097152, 8] back = ["location": "none"] > {
      a = MatMul (x, w)
      m = MatMul (wide, back)
      c = MatMul (a, m)
      b = Transpose <perm = [1, 0]> (x)
      y = MatMul (c, b)
    })");
  const Target target = CardOf(900 * kMiB);
  const MaxBatch found = FindMaxBatches(graph, {}, {&target, 1})[0];
  REQUIRE(found.batch > 100);
  CHECK(found.per_sample_bytes == 0);
  CHECK(!found.grows_faster);
}

// That it stores 16 bits is no reason to count them, and so has to be said.
TEST_CASE("each row of a table has what is assumed of the file") {
  const Graph graph = ParseGraph(R"(net (float16[N, 8] x) => (float16[N, 8] y)
    < float16[8, 8] w = ["location": "none"] > { y = MatMul (x, w) })");
  EstimateRequest request;
  request.targets = {CardOf(600 * kMiB)};
  const std::string stored = "the file stores its parameters in float16";
  const auto says = [&](const std::vector<std::string>& assumptions) {
    return std::ranges::any_of(assumptions,
                               [&](const std::string& text) { return text.starts_with(stored); });
  };
  CHECK(says(AnswerMaxBatch(graph, {&request, 1}).rows[0].estimate->assumptions));
  std::vector<EstimateRequest> both = {request, request};
  both[1].settings.precision = Precision::kFp16;
  const MaxBatchAnswer table = AnswerMaxBatch(graph, both);
  CHECK(says(table.rows[0].remarks.assumptions));
  CHECK(std::ranges::count(table.rows[0].remarks.assumptions, "") == 0);
  CHECK(!says(table.rows[1].remarks.assumptions));
}

TEST_CASE("a table says once which cards share their memory") {
  const Graph graph = Model("linear.onnxtxt");
  EstimateRequest request = kInPlace;
  for (const char* name : {"t4", "jetson-orin-nano", "jetson-nano"}) {
    request.targets.push_back(MakeTarget({.card = FindCard(name), .is_one_of_many = true}));
  }
  const Warnings warnings =
      AnswerMaxBatch(graph, {&request, 1}, {.detail = BatchDetail::kBatch}).warnings;
  const auto shared = std::ranges::find(warnings,
                                        "they share their memory with the CPU: "
                                        "jetson-orin-nano, jetson-nano",
                                        &Warning::text);
  CHECK(shared != warnings.end());
}

TEST_CASE("--max ends the search and says so, a card for nothing is an answer") {
  const Graph graph = Model("lenet.onnxtxt");
  const Target large = CardOf(8 * kGiB);
  const MaxBatch limited = FindMaxBatches(graph, {}, {&large, 1}, {.most = 100})[0];
  CHECK(limited.batch == 100);
  CHECK(limited.is_limited);
  CHECK(!limited.next.has_value());
  CHECK(limited.judgement.verdict == Verdict::kFits);
  const Target none = CardOf(1 * kMiB);
  const MaxBatch nothing = FindMaxBatches(graph, {}, {&none, 1})[0];
  CHECK(nothing.batch == 0);
  CHECK(!nothing.is_limited);
  CHECK(nothing.judgement.verdict == Verdict::kOom);
  REQUIRE(nothing.next.has_value());
  CHECK(nothing.next->batch == 1);
}

TEST_CASE("cards of one kind and of several get the answers that each gets alone") {
  const Graph graph = Model("mobilenet_v2.script.onnx");
  std::vector<Target> targets;
  for (const char* alias : {"t4", "p100", "jetson-nano-2gb", "rtx3060"}) {
    targets.push_back(MakeTarget({.card = FindCard(alias)}));
  }
  targets.push_back(MakeTarget({.memory_bytes = 4 * kGiB}));
  targets.push_back(MakeTarget({.card = FindCard("t4"), .memory_bytes = 2 * kGiB}));
  const BatchLimits brief = {.detail = BatchDetail::kBatch};
  const std::vector<MaxBatch> together = FindMaxBatches(graph, {}, targets, brief);
  REQUIRE(together.size() == targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    CAPTURE(targets[i].name);
    const MaxBatch alone = FindMaxBatches(graph, {}, {&targets[i], 1}, brief)[0];
    CHECK(together[i].target.name == targets[i].name);
    CHECK(together[i].batch == alone.batch);
    CHECK(together[i].judgement.used_bytes == alone.judgement.used_bytes);
    CHECK((together[i].batch > 0) == (targets[i].name != "jetson-nano-2gb"));
  }
}

TEST_CASE("a batch that a layer has taken in cannot be searched, which is said") {
  const TempFolder folder;
  const Graph graph =
      LoadGraph(folder.Write("fixed.onnxtxt", R"(<ir_version: 8, opset_import: ["" : 17]>
fixed (float[4, 6] x) => (float[1, 2] y)
<float[24, 2] w = ["location": "none"], int64[2] flat = {1, 24}> {
  f = Reshape(x, flat)
  [head] y = MatMul(f, w)
})"));
  CHECK(ErrorOf(graph, CardOf(kGiB)).find("node 'head' (MatMul): the batch is fixed at 4") !=
        std::string::npos);
}

}  // namespace onnxfit::batch_search_test

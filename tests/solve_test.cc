#include "estimator/fit/solve.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/fit/judge_targets.h"
#include "estimator/fit/max_batch.h"
#include "estimator/onnx/loader.h"

namespace onnxfit::solve_test {
namespace {

// Attention's scores make a step's bytes grow with the square of S.
constexpr const char* kAttention = R"(net (float[N, S, 64] x) => (float[N, S, 64] y)
  < float[64, 64] w = ["location": "none"], float[64, 64] v = ["location": "none"] > {
    q = MatMul (x, w)
    k = Transpose <perm = [0, 2, 1]> (x)
    s = MatMul (q, k)
    p = Softmax <axis = -1> (s)
    o = MatMul (p, x)
    y = MatMul (o, v)
  })";

constexpr const char* kLayers = R"(net (float[N, S, 4096] x) => (float[N, S, 4096] y)
  < float[4096, 4096] w = ["location": "none"], float[4096, 4096] v = ["location": "none"] > {
    a = MatMul (x, w)
    b = Tanh (a)
    y = MatMul (b, v)
  })";

// A table of 128 positions, as GPT-2 has one of 1024.
constexpr const char* kPositions = R"(net (float[N, S, 64] x) => (float[N, S, 64] y)
  < float[128, 64] table = ["location": "none"], float[64, 64] w = ["location": "none"],
    int64[1] zero = {0} > {
    length = Shape <start = 1, end = 2> (x)
    p = Slice (table, zero, length, zero)
    a = Add (x, p)
    y = MatMul (a, w)
  })";

Target CardOf(int64_t bytes) {
  Target target = {.name = "card", .device = DefaultDevice(), .total_bytes = bytes};
  target.device.context = {};
  return target;
}

EstimateRequest RequestOn(int64_t bytes, int64_t batch) {
  EstimateRequest request = {.settings = {.in_place = InPlaceUse::kAlways, .dropout = 0.0}};
  request.binding.batch = batch;
  request.targets = {CardOf(bytes)};
  return request;
}

Solved Solve(const Graph& graph, const EstimateRequest& request, const SolveOptions& options) {
  const Study study(graph);
  return SolveSize(study, {&request, 1}, options).rows.at(0);
}

// The definition to the letter: every size up to `most` is predicted and judged.
class SlowScan {
 public:
  SlowScan(const Graph& graph, EstimateRequest request, int64_t most)
      : target_(request.targets[0]) {
    verdicts_ = {Verdict::kOom};
    request.settings.device = target_.device;
    for (int64_t size = 1; size <= most; ++size) {
      request.binding.dims["S"] = size;
      verdicts_.push_back(Judge(PredictLoop(graph, request).playable(), target_).verdict);
    }
  }

  int64_t Largest(bool is_strict) const {
    for (int64_t size = most(); size > 0; --size) {
      bool all = true;
      for (int64_t near = size - ReachOf(size); near <= size + ReachOf(size); ++near) {
        all = all && near <= most() && Runs(near, is_strict);
      }
      if (all) return size;
    }
    return 0;
  }

  int64_t FirstFailureAbove(int64_t size) const {
    do ++size;
    while (size <= most() && Runs(size, false));
    return size;
  }

  int64_t most() const { return static_cast<int64_t>(verdicts_.size()) - 1; }

 private:
  bool Runs(int64_t size, bool is_strict) const {
    const Verdict verdict = verdicts_[static_cast<size_t>(size)];
    return verdict == Verdict::kFits || (verdict == Verdict::kTight && !is_strict);
  }

  Target target_;
  std::vector<Verdict> verdicts_;  // by size; there is none of 0
};

}  // namespace

// 256 floats a token: the loop has an input, the next one and an output, each of whole 2 MiB,
// beside 2 MiB with the weight and 20 MiB with cuBLAS's workspace.
TEST_CASE("the first length that fails is the one that arithmetic says") {
  const Graph graph = ParseGraph(R"(net (float[N, S, 256] x) => (float[N, S, 256] y)
    < float[256, 256] w = ["location": "none"] > { y = MatMul (x, w) })");
  constexpr int64_t kBatch = 4;
  EstimateRequest request = RequestOn(256 * kMiB, kBatch);
  request.settings.mode = Mode::kEval;
  const Solved found = Solve(graph, request, {.name = "S"});
  constexpr int64_t kTensor = (256 - 2 - 20) * kMiB / 3;
  static_assert(kTensor % (2 * kMiB) == 0);
  REQUIRE(found.next.has_value());
  CHECK(found.next->size == kTensor / (kBatch * 256 * 4) + 1);
  CHECK(found.runs.size + ReachOf(found.runs.size) == found.next->size - 1);
  CHECK(found.fits.size < found.runs.size);
  CHECK(!found.grows_faster());
}

TEST_CASE("the search finds what a scan of every length finds") {
  struct Row {
    const char* model;
    int64_t batch;
    std::vector<int64_t> sizes;  // of the card
    int64_t most;
  };
  const Row rows[] = {
      {kAttention, 16, {30 * kMiB, 60 * kMiB, 100 * kMiB, 150 * kMiB}, 700},
      {kLayers, 2, {700 * kMiB, 710 * kMiB, 720 * kMiB}, 500},
  };
  int answers = 0;
  for (const Row& row : rows) {
    const Graph graph = ParseGraph(row.model);
    for (const int64_t bytes : row.sizes) {
      CAPTURE(row.model);
      CAPTURE(bytes);
      const EstimateRequest request = RequestOn(bytes, row.batch);
      const SlowScan slow(graph, request, row.most);
      const Solved found = Solve(graph, request, {.name = "S"});
      REQUIRE(slow.Largest(false) + 20 < slow.most());
      CHECK(found.runs.size == slow.Largest(false));
      CHECK(found.fits.size == slow.Largest(true));
      REQUIRE(found.next.has_value());
      CHECK(found.next->size == slow.FirstFailureAbove(found.runs.size));
      CHECK(found.next->judgement.verdict == Verdict::kOom);
      answers += found.runs.size > 20 ? 1 : 0;
    }
  }
  CHECK(answers >= 5);
}

TEST_CASE("what grows with the square of the length is said to") {
  const Graph graph = ParseGraph(kAttention);
  const Solved found = Solve(graph, RequestOn(8 * kGiB, 4), {.name = "S"});
  CHECK(found.grows_faster());
  const Solved even = Solve(ParseGraph(kLayers), RequestOn(8 * kGiB, 4), {.name = "S"});
  CHECK(!even.grows_faster());
  CHECK(std::abs(even.last_bytes - even.half_bytes) < even.half_bytes / 100);
}

TEST_CASE("where the model takes no larger size, that is the answer, and why") {
  const Graph graph = ParseGraph(kPositions);
  const Solved found = Solve(graph, RequestOn(8 * kGiB, 4), {.name = "S"});
  CHECK(found.runs.size == 128);
  CHECK(found.fits.size == 128);
  CHECK(!found.next.has_value());
  CHECK(found.end.find("129 beside 128, as 'table' has") != std::string::npos);
  // A card that is full before never comes there.
  const Solved less = Solve(graph, RequestOn(64 * kMiB, 1000), {.name = "S"});
  CHECK(less.runs.size > 0);
  CHECK(less.runs.size < 128);
  CHECK(less.end == "");
  CHECK(less.next.has_value());
}

TEST_CASE("a size has a least that the model takes") {
  // Below 4 its output would have a negative length.
  const Graph graph = ParseGraph(R"(net (float[N, 8, S] x) => (float[N, 8, T] y)
    < float[8, 8, 5] w = ["location": "none"] > { y = Conv (x, w) })");
  const Solved none = Solve(graph, RequestOn(1 * kMiB, 4), {.name = "S"});
  CHECK(none.runs.size == 0);
  CHECK(none.judged == 4);
  CHECK(none.runs.judgement.verdict == Verdict::kOom);
  CHECK(Solve(graph, RequestOn(256 * kMiB, 4), {.name = "S"}).runs.size > 5);
}

TEST_CASE("sizes are multiples, and no larger than is allowed") {
  const Graph graph = ParseGraph(kLayers);
  const EstimateRequest request = RequestOn(720 * kMiB, 2);
  const Solved every = Solve(graph, request, {.name = "S"});
  const Solved some = Solve(graph, request, {.name = "S", .multiple_of = 8});
  CHECK(some.runs.size % 8 == 0);
  CHECK(some.next->size == some.runs.size + 8);
  CHECK(some.next->size >= every.next->size);
  const Solved limited = Solve(graph, request, {.name = "S", .most = 20});
  CHECK(limited.runs.size == 20);
  CHECK(limited.is_limited);
  CHECK_THROWS_WITH_AS(Solve(graph, request, {.name = "S", .multiple_of = 8, .most = 4}),
                       "--max: expected at least 8, the least S that is tried, found 4 (try: "
                       "--max 8)",
                       Error);
}

TEST_CASE("height and width of an image are solved together") {
  const Graph graph = ParseGraph(R"(net (float[N, 3, H, W] x) => (float[N, 8, A, B] y)
    < float[8, 3, 3, 3] w = ["location": "none"] > { y = Conv <pads = [1, 1, 1, 1]> (x, w) })");
  EstimateRequest request = RequestOn(512 * kMiB, 2);
  const Solved found = Solve(graph, request, {.name = "image"});
  REQUIRE(found.runs.size > 32);
  CHECK(found.runs.size % 32 == 0);
  for (const auto& [size, verdict] :
       {std::pair{found.next->size, Verdict::kOom}, std::pair{found.runs.size, Verdict::kTight}}) {
    request.binding.dims = {{"H", size}, {"W", size}};
    const LoopedPrediction looped = PredictLoop(graph, request);
    CHECK((Judge(looped.playable(), request.targets[0]).verdict == Verdict::kOom) ==
          (verdict == Verdict::kOom));
  }
}

}  // namespace onnxfit::solve_test

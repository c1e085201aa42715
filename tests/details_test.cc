// What -v tells of a run.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "estimator/fit/remarks.h"
#include "tests/trace_helpers.h"

namespace onnxfit::details_test {
namespace {

// Two calls that work in place, a view, and arithmetic on shapes.
constexpr char kSteps[] = R"(
  net (float[16, 4, 2] x) => (float[16, 3] y)
  < float[8, 3] w = ["location": "none"] > {
    squared = Mul (x, x)
    sum = Add (squared, x)
    act = Relu (sum)
    rows = Shape <start = 0, end = 1> (act)
    flat = Flatten (act)
    y = MatMul (flat, w)
  })";

TEST_CASE("notes count calls, host arithmetic and what works in place") {
  struct Row {
    InPlaceUse in_place;
    const char* notes;
  };
  const Row rows[] = {
      {InPlaceUse::kAlways,
       "6 nodes run as 7 calls, the loss included; arithmetic on the host: 1; "
       "in place: 1 relu, the first at Relu #2"},
      {InPlaceUse::kNever, "6 nodes run as 7 calls, the loss included; arithmetic on the host: 1"},
  };
  for (const Row& row : rows) {
    const Prediction prediction =
        Predict(ParseGraph(kSteps), {.settings = {.in_place = row.in_place}, .details = true});
    CHECK(fmt::format("{}", fmt::join(RunNotes(prediction), "; ")) == row.notes);
  }
}

TEST_CASE("a summary names the largest allocation and the peak of each step") {
  const Prediction prediction =
      Predict(ParseGraph(kTwoLayers), {.settings = {.optimizer = Optimizer::kSgd}});
  const std::vector<StepSummary> steps = SummarizeSteps(prediction);
  REQUIRE(steps.size() == 3);
  CHECK(steps[0].largest == "cuBLAS workspace");
  CHECK(steps[1].largest == "h");
  CHECK(steps[1].largest_bytes == 16 * 8 * 4);
  CHECK(steps[1].allocations == steps[1].frees);
  CHECK(steps[1].peak == Instant{2, Phase::kForward, "loss"});
}

TEST_CASE("peaks and blocks are those of the allocator that is asked for") {
  EstimateRequest request = {.why = "h", .details = true};
  request.alloc_conf.conf.roundup_divisions.fill(2);
  const Estimate estimate = MakeEstimate(ParseGraph(kTwoLayers), request);
  REQUIRE(estimate.steps.size() == estimate.step_events.size());
  for (size_t i = 0; i < estimate.steps.size(); ++i) {
    CHECK(estimate.step_events[i].peak_allocated_bytes == estimate.steps[i].peak.allocated_bytes);
  }
  CHECK(estimate.why->allocated_at_peak == estimate.peak.allocated_bytes);
}

}  // namespace
}  // namespace onnxfit::details_test

#include "estimator/base/nccl.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/fit/estimate.h"
#include "tests/trace_helpers.h"

namespace onnxfit::nccl_test {
namespace {

// The two sizes that NCCL_DEBUG_SUBSYS=ALLOC shows on 8 H100: NVIDIA/nccl, issue 1685.
TEST_CASE("a connection is the allocations that NCCL tells of") {
  CHECK(NcclConnectionBytes() == 10485760 + 2097152);
}

TEST_CASE("a communicator is between few rings and many of both") {
  CHECK(FormatBytes(NcclLeastBytes()) == "24.0 MiB");
  CHECK(FormatBytes(NcclMuchBytes()) == "1.12 GiB");
}

TEST_CASE("the room for it is told where verdicts leave it") {
  const auto tells = [](EstimateRequest request) {
    request.settings.ranks.strategy = Strategy::kDdp;
    const Estimate estimate = MakeEstimate(ParseGraph(kTwoLayers), request);
    return std::ranges::any_of(estimate.assumptions, [](const std::string& text) {
      return text.find("verdicts leave room") != std::string::npos;
    });
  };
  CHECK(tells({}));
  CHECK_FALSE(tells({.overhead_bytes = 0}));
}

}  // namespace
}  // namespace onnxfit::nccl_test

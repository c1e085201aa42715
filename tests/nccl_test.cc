#include "estimator/base/nccl.h"

#include <doctest/doctest.h>

#include "estimator/base/bytes.h"

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

}  // namespace
}  // namespace onnxfit::nccl_test

// Which cards are found, where CUDA's runtime and the driver's library are the tests' own.
#include <doctest/doctest.h>
#include <unistd.h>

#include "benchmarks/cuda/on_host/host_cuda.h"
#include "estimator/base/bytes.h"
#include "estimator/cuda/find_gpus.h"
#include "tests/nvml_library.h"
#include "tests/paths.h"

namespace onnxfit::cuda_find_gpus_test {
namespace {

// Of driver_types.h.
constexpr int kSuccess = 0;              // cudaSuccess
constexpr int kInsufficientDriver = 35;  // cudaErrorInsufficientDriver
constexpr int kDevicesUnavailable = 46;  // cudaErrorDevicesUnavailable
constexpr int kUnknown = 999;            // cudaErrorUnknown

// The runtime as it is at first, with `count` cards of 100 GiB, where the driver's library has its
// one: other processes hold 20, a context takes 10.
HostCuda& RuntimeWith(size_t count) {
  TheHostCuda() = {.context_bytes = 10 * kGiB};
  TheHostCuda().devices.assign(
      count, {.bus_id = NvmlScene{}.bus_id, .total_bytes = 100 * kGiB, .others_bytes = 20 * kGiB});
  return TheHostCuda();
}

// Loaded under the driver's name, under which FindGpus opens it: this process has 10 GiB, another
// 20.
NvmlLibrary Driver() {
  NvmlLibrary library(kCountingNvml);
  library->total_bytes = 102 * kGiB;
  library->compute = {{static_cast<unsigned int>(getpid()), 10 * kGiB}, {7, 20 * kGiB}};
  return library;
}

TEST_CASE("a card is what CUDA and the driver say of it") {
  const NvmlLibrary driver = Driver();
  RuntimeWith(1);
  const GpuSearch search = FindGpus();
  CHECK(search.why_none == "");
  REQUIRE(search.gpus.size() == 1);
  const DetectedGpu& gpu = search.gpus[0];
  CHECK(gpu.name == "NVIDIA GeForce RTX 3060");
  CHECK(gpu.compute_capability == 86);
  CHECK(gpu.multiprocessors == 28);
  CHECK(gpu.threads_per_multiprocessor == 1536);
  CHECK(gpu.total_bytes == 100 * kGiB);
  CHECK(gpu.free_bytes == 70 * kGiB);
  CHECK(gpu.smi_bytes == 102 * kGiB);
  CHECK(gpu.process_bytes == 10 * kGiB);
  CHECK(gpu.others == std::vector<GpuProcess>{{7, "p7", 20 * kGiB}});
  CHECK(gpu.driver == "580.65.06");
  CHECK(gpu.cuda_driver == 13000);
  CHECK(gpu.why_unusable == "");
}

TEST_CASE("one card that gives no context does not hide the others, nor who holds it") {
  const NvmlLibrary driver = Driver();
  driver->compute.erase(driver->compute.begin());
  HostCuda& runtime = RuntimeWith(3);
  runtime.devices[0].context_status = kDevicesUnavailable;
  runtime.devices[1].properties_status = kUnknown;
  const GpuSearch search = FindGpus();
  REQUIRE(search.gpus.size() == 3);
  CHECK(search.gpus[0].why_unusable ==
        "CUDA gives this process no context: CUDA-capable device(s) is/are busy or unavailable");
  CHECK(search.gpus[0].total_bytes == 100 * kGiB);
  CHECK(search.gpus[0].others.size() == 1);
  CHECK(search.gpus[1].why_unusable ==
        "CUDA gives this process no context: an error of the card on the host");
  CHECK(search.gpus[2].why_unusable == "");
  CHECK(search.gpus[2].free_bytes == 70 * kGiB);
  CHECK(search.gpus[2].others.empty());  // a list without this process is of other ids
}

TEST_CASE("of a slice, what the driver says of all of the card is left out") {
  const NvmlLibrary driver = Driver();
  RuntimeWith(1).devices[0].total_bytes = 80 * kGiB;
  CHECK(!FindGpus().gpus[0].smi_bytes.has_value());
}

TEST_CASE("one card is found without a context on others") {
  const NvmlLibrary driver = Driver();
  HostCuda& runtime = RuntimeWith(4);
  runtime.devices[2].name = "Tesla T4";
  const GpuSearch search = FindGpus(2);
  REQUIRE(search.gpus.size() == 1);
  CHECK(search.gpus[0].index == 2);
  CHECK(search.gpus[0].name == "Tesla T4");
  CHECK(runtime.contexts == std::set<int>{2});
  CHECK(FindGpus(4).why_none == "no usable GPU: expected an index below 4, found 4");
}

TEST_CASE("where there is none, one sentence says why") {
  HostCuda& runtime = RuntimeWith(0);
  CHECK(FindGpus().why_none == "no usable GPU: no CUDA-capable device is detected");
  runtime.count_status = kSuccess;
  CHECK(FindGpus().why_none == "no usable GPU: CUDA shows none");
  runtime.count_status = kInsufficientDriver;
  runtime.driver = 11080;
  CHECK(FindGpus().why_none.ends_with(" or later, found one for CUDA 11.8"));
  runtime.driver = 0;
  CHECK(FindGpus().why_none ==
        "no usable GPU: no NVIDIA driver is installed here (no libcuda.so.1)");
}

}  // namespace
}  // namespace onnxfit::cuda_find_gpus_test

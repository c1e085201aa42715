// The code that talks to CUDA, on a runtime that lives on the host.
#include <doctest/doctest.h>

#include <string>

#include "benchmarks/cuda/on_host/host_cuda.h"
#include "benchmarks/cuda/open_gpu.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/fit/verify.h"
#include "estimator/memory/gpu_replay.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"

namespace onnxfit::cuda_gpu_test {
namespace {

// A card as it was when the test began.
class CudaTest {
 public:
  CudaTest() { TheHostCuda() = {}; }
  ~CudaTest() { CHECK(TheHostCuda().held_bytes == 0); }
};

Verification LenetOn(SegmentMemory memory, const AllocatorConf& conf = {}) {
  EstimateRequest request;
  request.binding.batch = 64;
  request.alloc_conf.conf = conf;
  const Graph graph = LoadGraph(std::string(kSourceDir) + "/models/lenet.onnxtxt");
  const DetectedGpu gpu = FindGpus().gpus.at(0);
  const auto card = OpenGpu(0, memory);
  return Verify(graph, request, gpu, *card, {.steps = 4});
}

TEST_CASE_FIXTURE(CudaTest, "a card that is not there is not opened") {
  CHECK_THROWS_AS(OpenGpu(1, SegmentMemory::kWhole), Error);
}

TEST_CASE_FIXTURE(CudaTest, "whole segments and pages are taken, written, checked and given back") {
  for (const SegmentMemory memory : {SegmentMemory::kWhole, SegmentMemory::kPages}) {
    const auto card = OpenGpu(0, memory);
    const int64_t before = card->free_bytes();
    CHECK(card->Take(0, 0, 4 * kMiB));
    CHECK(card->Take(7, 0, 2 * kMiB));
    CHECK(before - card->free_bytes() == 6 * kMiB);
    card->Write(0, 0, 4 * kMiB, 1);
    card->Write(7, 512, 1024, 2);
    card->Check(0, 0, 4 * kMiB, 1);
    card->Check(7, 512, 1024, 2);
    CHECK(card->WrongBytes() == 0);
    card->Check(7, 0, 1024, 2);  // its first half was never written so
    CHECK(card->WrongBytes() > 0);
    card->GiveBack(0, 0, 4 * kMiB);
    CHECK(before - card->free_bytes() == 2 * kMiB);
    CHECK(TheHostCuda().kernels > 0);
  }  // segment 7 goes with its card
}

TEST_CASE_FIXTURE(CudaTest, "pages of one segment come and go in any order") {
  const auto card = OpenGpu(0, SegmentMemory::kPages);
  const int64_t before = card->free_bytes();
  CHECK(card->Take(0, 0, 6 * kMiB));
  CHECK(card->Take(0, 6 * kMiB, 20 * kMiB));
  card->Write(0, 4 * kMiB, 10 * kMiB, 3);
  card->GiveBack(0, 2 * kMiB, 4 * kMiB);
  card->Check(0, 6 * kMiB, 8 * kMiB, 3);
  CHECK(card->WrongBytes() == 0);
  CHECK(card->Take(0, 2 * kMiB, 2 * kMiB));
  CHECK(before - card->free_bytes() == 24 * kMiB);
}

TEST_CASE_FIXTURE(CudaTest, "a run is carried out to the byte, by cudaMalloc and by pages") {
  CHECK(LenetOn(SegmentMemory::kWhole).proof == Proof::kPass);
  const Verification pages = LenetOn(SegmentMemory::kPages, {.expandable_segments = true});
  CHECK(pages.proof == Proof::kPass);
  CHECK(pages.exact_phases() == static_cast<int64_t>(pages.measured.phases.size()));
  CHECK(pages.measured.blocks > 100);
}

TEST_CASE_FIXTURE(CudaTest, "what overwrites a block is seen by the kernel") {
  TheHostCuda().scribbles_at = 30;
  const Verification verification = LenetOn(SegmentMemory::kWhole);
  CHECK(verification.proof == Proof::kFail);
  CHECK(verification.measured.wrong_bytes == 5);
}

TEST_CASE_FIXTURE(CudaTest, "a full card is an answer, whichever allocation meets it") {
  for (const SegmentMemory memory : {SegmentMemory::kWhole, SegmentMemory::kPages}) {
    TheHostCuda() = {};
    HostDevice& device = TheHostCuda().devices[0];
    device.others_bytes = device.total_bytes - 112 * kMiB;  // 12 MiB are left
    const Verification verification =
        LenetOn(memory, {.expandable_segments = memory == SegmentMemory::kPages});
    CHECK(verification.proof == Proof::kOom);
    REQUIRE(verification.fails_at);
    CHECK(verification.fails_at->was_predicted);
  }
}

TEST_CASE_FIXTURE(CudaTest, "a refusal with room left is asked again once") {
  TheHostCuda().fails_at = 1;
  const Verification verification = LenetOn(SegmentMemory::kWhole);
  CHECK(verification.proof == Proof::kPass);
  CHECK(verification.measured.retries == 1);
}

}  // namespace
}  // namespace onnxfit::cuda_gpu_test

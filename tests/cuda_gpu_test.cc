// The code that talks to CUDA, on a runtime that lives on the host.
#include <doctest/doctest.h>

#include <string>

#include "benchmarks/cuda/find_gpus.h"
#include "benchmarks/cuda/on_host/host_cuda.h"
#include "benchmarks/cuda/open_gpu.h"
#include "estimator/base/bytes.h"
#include "estimator/base/error.h"
#include "estimator/fit/verify.h"
#include "estimator/graph/loader.h"
#include "estimator/memory/gpu_replay.h"

namespace onnxfit {
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
  const Graph graph = LoadGraph(std::string(ONNXFIT_SOURCE_DIR) + "/models/lenet.onnxtxt");
  const DetectedGpu gpu = FindGpus().gpus.at(0);
  const auto card = OpenGpu(0, memory);
  return Verify(graph, request, gpu, *card, {.steps = 4});
}

TEST_CASE_FIXTURE(CudaTest, "a card is described as CUDA does") {
  TheHostCuda().others_bytes = 512 * kMiB;
  const GpuSearch search = FindGpus();
  REQUIRE(search.gpus.size() == 1);
  const DetectedGpu& gpu = search.gpus[0];
  CHECK(gpu.name == "NVIDIA GeForce RTX 3060");
  CHECK(gpu.compute_capability == 86);
  CHECK(gpu.multiprocessors == 28);
  CHECK(gpu.threads_per_multiprocessor == 1536);
  CHECK(gpu.total_bytes == 12 * 1024 * kMiB);
  CHECK(gpu.free_bytes == (12 * 1024 - 512 - 100) * kMiB);
  CHECK(gpu.cuda_driver == 13000);
}

TEST_CASE_FIXTURE(CudaTest, "where CUDA shows no card, a sentence says so") {
  TheHostCuda().devices = 0;
  const GpuSearch search = FindGpus();
  CHECK(search.gpus.empty());
  CHECK(search.why_none == "no usable GPU: no CUDA-capable device is detected");
  CHECK_THROWS_AS(OpenGpu(0, SegmentMemory::kWhole), Error);
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
    TheHostCuda().others_bytes = TheHostCuda().total_bytes - 112 * kMiB;  // 12 MiB are left
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
}  // namespace onnxfit

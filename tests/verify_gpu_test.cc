// A card at hand does what was predicted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include "benchmarks/cuda/open_gpu.h"
#include "estimator/cuda/find_gpus.h"
#include "estimator/fit/target.h"
#include "estimator/fit/verify.h"
#include "estimator/onnx/loader.h"
#include "tests/paths.h"
#include "tests/skip_without_gpu.h"

namespace onnxfit::verify_gpu_test {
namespace {

EstimateRequest RequestFor(const DetectedGpu& gpu) {
  EstimateRequest request;
  request.settings.device = MakeTarget({.detected = &gpu}).device;
  return request;
}

Graph Model(const std::string& name) {
  return LoadGraph(std::string(kSourceDir) + "/models/" + name);
}

TEST_CASE("reserved memory is as predicted, to the byte, in every phase") {
  const DetectedGpu gpu = FirstGpu();
  struct Row {
    const char* model;
    int64_t batch;
    bool pages;
  };
  const Row rows[] = {{"lenet.onnxtxt", 64, false},
                      {"resnet18.train.onnx", 8, false},
                      {"resnet18.train.onnx", 8, true},
                      {"gpt2.dynamo.onnx", 1, false}};
  for (const Row& row : rows) {
    CAPTURE(row.model);
    EstimateRequest request = RequestFor(gpu);
    request.binding.batch = row.batch;
    request.alloc_conf.conf.expandable_segments = row.pages;
    const auto card = OpenGpu(0, row.pages ? SegmentMemory::kPages : SegmentMemory::kWhole);
    const Verification verification = Verify(Model(row.model), request, gpu, *card);
    CHECK(verification.proof == Proof::kPass);
    CHECK(verification.exact_phases() == static_cast<int64_t>(verification.measured.phases.size()));
    CHECK(verification.measured.wrong_bytes == 0);
    CHECK(verification.measured.after.free_bytes == verification.measured.before.free_bytes);
    MESSAGE(fmt::format("{}: {:.3f} s", row.model, verification.measured.seconds));
  }
}

TEST_CASE("a card too small for any batch says so and stays clean") {
  const DetectedGpu gpu = FirstGpu();
  const auto card = OpenGpu(0, SegmentMemory::kWhole);
  const int64_t before = card->free_bytes();
  EstimateRequest request = RequestFor(gpu);
  request.binding.batch = 4'000'000;  // 47 GB of input alone for a batch of LeNet's
  const Verification verification = Verify(Model("lenet.onnxtxt"), request, gpu, *card);
  CHECK((verification.proof == Proof::kOom || verification.proof == Proof::kPass));
  CHECK(card->free_bytes() >= before);  // a driver may give back some of its own, too
}

}  // namespace
}  // namespace onnxfit::verify_gpu_test

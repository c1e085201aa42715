// What `--gpu auto` takes of a card at hand.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "estimator/base/bytes.h"
#include "estimator/base/contexts.h"
#include "estimator/base/device.h"
#include "estimator/fit/target.h"

namespace onnxfit::detected_target_test {
namespace {

constexpr int64_t kOwn = 400 * kMiB;

// A card of 10 GiB, of which this process has kOwn and others nothing.
DetectedGpu Gpu(const std::string& name) {
  return {.name = name,
          .compute_capability = 80,
          .multiprocessors = 100,
          .threads_per_multiprocessor = 2048,
          .total_bytes = 10 * kGiB,
          .free_bytes = 10 * kGiB - kOwn,
          .process_bytes = kOwn};
}

// The rule's, of a card of that many threads.
ContextBytes ContextOfUnknown() {
  return ContextByRule(
      {.compute_capability = 80, .multiprocessors = 100, .threads_per_multiprocessor = 2048});
}

Target TargetOf(const DetectedGpu& gpu) { return MakeTarget({.detected = &gpu}); }

// The same card where others have `taken` of it, as the driver lists them.
DetectedGpu Busy(int64_t taken, std::vector<GpuProcess> others) {
  DetectedGpu gpu = Gpu("NVIDIA Unheard-of");
  gpu.free_bytes -= taken;
  gpu.others = std::move(others);
  return gpu;
}

}  // namespace

TEST_CASE("a card at hand is what it says of itself, and its row's context") {
  const DetectedGpu gpu = Gpu("NVIDIA A100-SXM4-80GB");
  const Target target = TargetOf(gpu);
  const Card* row = FindCard("a100-80gb");
  CHECK(target.name == "a100-80gb");
  CHECK(target.total_bytes == 10 * kGiB);
  CHECK(target.shares.empty());
  CHECK(target.warnings.empty());
  CHECK(target.device.name == row->device.name);
  CHECK(target.device.context == row->device.context);
  CHECK(target.device.multiprocessors == 100);
  CHECK(target.device.compute_capability == 80);
  CHECK(target.device.threads_per_multiprocessor == 2048);
  CHECK(target.capacity_bytes() == 10 * kGiB - row->device.context.bytes);
}

TEST_CASE("a card that the table lacks has its own name, and the context of the rule") {
  Target target;
  {
    const DetectedGpu gone = Gpu("NVIDIA A100-SXM4-40GB MIG 3g.20gb, in a very long name");
    target = TargetOf(gone);
  }
  CHECK(target.name == "A100-SXM4-40GB MIG 3g.20gb, in a very long name");
  CHECK(target.device.name == target.name);
  CHECK(target.device.context == ContextOfUnknown());
}

TEST_CASE("what others hold comes off, measured where the driver tells what is ours") {
  struct Row {
    int64_t taken;
    std::vector<GpuProcess> others;
    std::string what;
    int64_t bytes;
  };
  const Row rows[] = {
      {kGiB, {{7, "python", kGiB}}, "other processes (python)", kGiB},
      {kGiB,
       {{7, "python", kGiB - 3 * kMiB}, {9, "Xorg", 2 * kMiB}, {8, "python", kMiB}},
       "other processes (python, Xorg)",
       kGiB},
      {kGiB, {}, "other processes or the driver", kGiB},                // of another container
      {kGiB, {{7, "", kMiB}}, "other processes", kGiB},                 // names that nobody may see
      {kMiB, {{7, "python", kGiB}}, "other processes (python)", kGiB},  // in between it grew
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const Target target = TargetOf(Busy(row.taken, row.others));
    REQUIRE(target.shares.size() == 1);
    CHECK(target.shares[0].what == row.what);
    CHECK(target.shares[0].bytes == row.bytes);
    CHECK(target.shares[0].low == row.bytes);
    CHECK(target.shares[0].high == row.bytes);
    CHECK(target.shares[0].basis == Basis::kMeasured);
    CHECK(target.usable_bytes() == 10 * kGiB - row.bytes);
  }
}

TEST_CASE("where nobody tells what is ours, others hold what no context explains") {
  const ContextBytes context = ContextOfUnknown();
  DetectedGpu gpu = Busy(kGiB, {});
  gpu.process_bytes.reset();
  const int64_t used = kOwn + kGiB;
  const Target target = TargetOf(gpu);
  REQUIRE(target.shares.size() == 1);
  CHECK(target.shares[0].bytes == used - context.bytes);
  CHECK(target.shares[0].low == used - context.high);
  CHECK(target.shares[0].high == used - context.low);
  CHECK(target.shares[0].basis == Basis::kAssumed);
  CHECK(target.least_capacity_bytes() == 10 * kGiB - (used - context.low) - context.high);
  gpu.free_bytes = gpu.total_bytes - context.high;
  CHECK(TargetOf(gpu).shares.empty());
  gpu.free_bytes -= 1;
  CHECK(TargetOf(gpu).shares.size() == 1);
}

TEST_CASE("a board that shares its memory keeps the system's share, known or not") {
  DetectedGpu gpu = Busy(5 * kGiB, {{7, "python", kGiB}});
  gpu.shares_memory = true;
  const Target target = TargetOf(gpu);
  REQUIRE(target.shares.size() == 2);
  CHECK(target.shares_memory);
  CHECK(target.shares[0].what == "operating system and desktop");
  CHECK(target.shares[1].what == "other processes (python)");
  CHECK(target.shares[1].bytes == kGiB);
  CHECK(target.device.context == SharedRuntime());
  REQUIRE(target.warnings.size() == 1);
  CHECK(target.warnings[0].code == "OF203");
}

TEST_CASE("a size or an overhead that was typed goes before what the card says") {
  const DetectedGpu gpu = Busy(kGiB, {{7, "python", kGiB}});
  const Target resized = MakeTarget({.detected = &gpu, .memory_bytes = 20 * kGiB});
  CHECK(resized.name == "Unheard-of with 20.0 GiB");
  CHECK(resized.total_bytes == 20 * kGiB);
  CHECK(resized.shares.empty());  // they are on the card, not on one of that size
  const Target bare = MakeTarget({.detected = &gpu, .overhead_bytes = 0, .reserved_for_others = 5});
  REQUIRE(bare.shares.size() == 2);
  CHECK(bare.shares[0].bytes == kGiB);
  CHECK(bare.shares[1].what == "other programs (--reserve)");
  CHECK(bare.capacity_bytes() == 10 * kGiB - kGiB - 5);
}

}  // namespace onnxfit::detected_target_test

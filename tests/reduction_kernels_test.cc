// What torch 2.11 allocates in forward for calls on x [8, 4096, 64], or on its transpose
// [8, 64, 4096], in bytes and in order, on a card of 108 multiprocessors: results, and what kernels
// take on the way where several blocks work on one result or the input is not contiguous.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::reduction_kernels_test {
namespace {

struct Row {
  const char* op;
  DType dtype;
  bool is_transposed;
  TensorType result;
  const char* forward;
};

Program ProgramOf(const Row& row) {
  const StridedType x = {{row.dtype, {8, 4096, 64}}, {4096 * 64, 64, 1}};
  const StridedType turned = {{row.dtype, {8, 64, 4096}}, {4096 * 64, 1, 64}};
  Program program;
  program.values = {{"x", x}, {"turned", turned}, {"y", {row.result, {}}}};
  program.parameters = {0};
  program.placement = {0};
  program.loss = 2;
  program.calls.push_back(
      {.op = "permute", .where = "turn", .inputs = {0}, .outputs = {1}, .ints = {0, 2, 1}});
  const NameId input = row.is_transposed ? 1 : 0;
  program.calls.push_back({.op = row.op, .where = "reduce", .inputs = {input}, .outputs = {2}});
  return program;
}

std::string ForwardSizes(const Trace& trace) {
  std::string text;
  bool is_forward = false;
  bool reduces = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) is_forward = event.phase == Phase::kForward;
    if (event.type == Event::Type::kAt) reduces = trace.labels[Index(event.id)] == "reduce";
    if (event.type != Event::Type::kAlloc || !is_forward || !reduces) continue;
    text += fmt::format("{} ", trace.buffers[Index(event.id)].bytes);
  }
  return text;
}

TEST_CASE("what reductions take in forward") {
  constexpr DType kF32 = DType::kFloat32;
  constexpr DType kBf16 = DType::kBFloat16;
  const Row rows[] = {
      {"sum", kF32, false, {kF32, {}}, "4 1024 4 "},
      {"mean", kBf16, false, {kBf16, {}}, "2 1024 4 "},
      {"mean", kF32, false, {kF32, {8, 64}}, "2048 16777216 16 "},
      {"mean", kF32, false, {kF32, {64}}, "256 4194304 4 "},
      {"norm", kF32, true, {kF32, {8, 64, 1}}, "2048 16777216 16 "},
      {"amax", kF32, false, {kF32, {64}}, "256 4194304 4 "},
      {"prod", kF32, false, {kF32, {}}, "4 1024 4 "},
      {"softmax", kF32, false, {kF32, {8, 4096, 64}}, "8388608 "},
      {"softmax", kF32, true, {kF32, {8, 64, 4096}}, "8388608 8388608 "},
      {"log_softmax", kF32, true, {kF32, {8, 64, 4096}}, "8388608 8388608 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    const TrainingSettings settings = {.optimizer = Optimizer::kNone, .steps = 1};
    CHECK(ForwardSizes(Train(ProgramOf(row), settings)) == row.forward);
  }
}

}  // namespace
}  // namespace onnxfit::reduction_kernels_test

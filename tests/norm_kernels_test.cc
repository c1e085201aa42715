// What torch 2.11 and 2.15 allocate in backward for F.layer_norm and F.rms_norm of x [rows,
// columns], in bytes and in order: gradients of y, x, weight and bias, partial sums of more than
// 65,536 rows, and their sums.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::norm_kernels_test {
namespace {

struct Row {
  const char* op;
  DType dtype;
  int64_t rows;
  int64_t columns;
  int64_t multiprocessors;
  const char* backward;
};

NameId AddParameter(Program& program, const char* name, const TensorType& type) {
  program.values.push_back({name, {type, {}}});
  const auto id = static_cast<NameId>(program.values.size() - 1);
  program.parameters.push_back(id);
  program.placement.push_back(id);
  return id;
}

Program NormProgram(const Row& row) {
  Program program;
  const TensorType x = {row.dtype, {row.rows, row.columns}};
  const TensorType weight = {row.dtype, {row.columns}};
  std::vector<NameId> inputs = {AddParameter(program, "x", x), AddParameter(program, "w", weight)};
  if (std::string_view(row.op) == "layer_norm") {
    inputs.push_back(AddParameter(program, "b", weight));
  }
  program.values.push_back({"y", {x, {}}});
  program.loss = static_cast<NameId>(program.values.size() - 1);
  program.calls.push_back(
      {.op = row.op, .where = "norm", .inputs = inputs, .outputs = {program.loss}});
  return program;
}

std::string BackwardSizes(const Trace& trace) {
  std::string text;
  bool is_backward = false;
  bool is_norm = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) is_backward = event.phase == Phase::kBackward;
    if (event.type == Event::Type::kAt) is_norm = trace.labels[Index(event.id)] == "norm";
    if (event.type != Event::Type::kAlloc || !is_backward || !is_norm) continue;
    text += fmt::format("{} ", trace.buffers[Index(event.id)].bytes);
  }
  return text;
}

TEST_CASE("what norms of many rows take in backward") {
  const Row rows[] = {
      {"layer_norm", DType::kFloat32, 65536, 64, 108, "16777216 16777216 256 256 "},
      {"layer_norm", DType::kFloat32, 65537, 64, 108,
       "16777472 16777472 256 256 524544 524544 256 278528 4 256 278528 4 "},
      {"layer_norm", DType::kFloat32, 100000, 768, 108,
       "307200000 307200000 3072 3072 4193280 4193280 3072 8650752 24 3072 8650752 24 "},
      {"layer_norm", DType::kBFloat16, 70000, 96, 108,
       "13440000 13440000 192 192 420096 420096 192 442368 8 192 442368 8 "},
      {"layer_norm", DType::kBFloat16, 2000000, 16, 108,
       "64000000 64000000 32 32 1048576 1048576 32 65536 4 32 65536 4 "},
      {"layer_norm", DType::kFloat32, 1000000, 8, 108,
       "32000000 32000000 32 32 1000000 1000000 32 7936 4 32 7936 4 "},
      {"rms_norm", DType::kFloat32, 70000, 64, 108, "17920000 17920000 256 560128 256 294912 4 "},
      {"rms_norm", DType::kFloat32, 70000, 1727, 108, "483560000 483560000 6908 4186248 6908 "},
      {"rms_norm", DType::kFloat32, 70000, 1728, 108, "483840000 483840000 6912 "},
      {"rms_norm", DType::kFloat32, 70000, 1728, 132, "483840000 483840000 6912 4188672 6912 "},
      {"rms_norm", DType::kFloat32, 70000, 2112, 132, "591360000 591360000 8448 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.rows);
    CAPTURE(row.columns);
    TrainingSettings settings = {.optimizer = Optimizer::kNone, .steps = 1};
    settings.device.multiprocessors = row.multiprocessors;
    CHECK(BackwardSizes(Train(NormProgram(row), settings)) == row.backward);
  }
}

TEST_CASE("norms of many rows take no partial sums before torch 2.8") {
  const Row row = {"layer_norm", DType::kFloat32, 88200, 96, 108, "33868800 33868800 384 384 "};
  for (const FrameworkProfile& framework : Frameworks().first(11)) {
    CAPTURE(framework.name);
    TrainingSettings settings = {.optimizer = Optimizer::kNone, .steps = 1};
    settings.framework = framework;
    settings.device.multiprocessors = row.multiprocessors;
    const bool is_old = framework.name != "pytorch-2.8";
    CHECK((BackwardSizes(Train(NormProgram(row), settings)) == row.backward) == is_old);
  }
}

}  // namespace
}  // namespace onnxfit::norm_kernels_test

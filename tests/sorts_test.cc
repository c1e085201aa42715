// What torch 2.11 allocates, in bytes and in order, for sorts, selections, random orders, absolute
// values and sums along a dimension: recorded events of a card of compute capability 8.0.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::sorts_test {
namespace {

constexpr DType kFp32 = DType::kFloat32;
constexpr DType kInt = DType::kInt32;
constexpr DType kLong = DType::kInt64;
constexpr DType kBool = DType::kBool;
constexpr DType kBf16 = DType::kBFloat16;

struct Row {
  const char* op;
  TensorType x;
  std::vector<TensorType> results;
  std::vector<int64_t> ints;
  const char* forward;
};

NameId Add(Program& program, const TensorType& type) {
  program.values.push_back({"v", {type, ContiguousStrides(type.dims)}});
  return static_cast<NameId>(program.values.size() - 1);
}

// What the call of a row allocates in the first forward pass.
std::string Forward(const Row& row) {
  Program program;
  const NameId x = Add(program, row.x);
  program.parameters.push_back(x);
  program.placement.push_back(x);
  std::vector<NameId> results;
  for (const TensorType& type : row.results) results.push_back(Add(program, type));
  program.calls.push_back(
      {.op = row.op, .where = row.op, .inputs = {x}, .outputs = results, .ints = row.ints});
  const NameId w = Add(program, {kFp32, {2}});
  program.parameters.push_back(w);
  program.placement.push_back(w);
  program.loss = Add(program, {kFp32, {2}});
  program.calls.push_back({.op = "exp", .where = "loss", .inputs = {w}, .outputs = {program.loss}});
  const Trace trace = Train(std::move(program), {.optimizer = Optimizer::kNone, .steps = 1});
  std::string text;
  bool is_op = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kAt) is_op = trace.labels[Index(event.id)] == row.op;
    if (event.type != Event::Type::kAlloc || !is_op) continue;
    const int64_t bytes = trace.buffers[Index(event.id)].bytes;
    if (bytes > 0) text += fmt::format("{}{}", text.empty() ? "" : " ", bytes);
  }
  return text;
}

constexpr int64_t kMillion = 1'000'000;

TEST_CASE("abs of complex numbers computes complex ones first") {
  for (const auto& [type, forward] :
       {std::pair(DType::kComplex64, "4000 8000"), std::pair(kFp32, "4000")}) {
    CHECK(Forward({"abs", {type, {1000}}, {{kFp32, {1000}}}, {}, forward}) == forward);
  }
}

TEST_CASE("sorts, selections and scans take what CUB asks for") {
  const Row rows[] = {
      // One row of many, and 64 rows by key and then by row.
      {"sort",
       {kFp32, {kMillion}},
       {{kFp32, {kMillion}}, {kLong, {kMillion}}},
       {0},
       "4000000 8000000 8000000 12342527"},
      // Places alone: the values that they stand for are made, and go.
      {"argsort",
       {kFp32, {kMillion}},
       {{kLong, {kMillion}}},
       {0},
       "4000000 8000000 8000000 12342527"},
      {"sort",
       {kFp32, {64, 5000}},
       {{kFp32, {64, 5000}}, {kLong, {64, 5000}}},
       {1},
       "1280000 2560000 2560000 2560000 1280000 3956223 88575"},
      {"median", {kFp32, {kMillion}}, {{kFp32, {}}}, {}, "4000000 8000000 8000000 12342527 1 4"},
      {"nanmedian",
       {kFp32, {kMillion}},
       {{kFp32, {}}},
       {},
       "4000000 8000000 8000000 12342527 1000000 8 8000000 984 4 8 4 8 4"},
      // Of few long rows several blocks find the largest; more than 4096 are sorted as tensors are.
      {"topk",
       {kFp32, {3, 30000}},
       {{kFp32, {3, 10}}, {kLong, {3, 10}}},
       {1, 1},
       "120 240 12 24 24 46080 3072 360 360 1279 1279"},
      {"topk",
       {kBf16, {3, 30000}},
       {{kBf16, {3, 10}}, {kLong, {3, 10}}},
       {1, 1},
       "60 240 6 24 24 46080 3072 360 360 1279 1279"},
      {"topk", {kFp32, {64, 5000}}, {{kFp32, {64, 10}}, {kLong, {64, 10}}}, {1, 1}, "2560 5120"},
      {"topk",
       {kFp32, {30000, 3}},
       {{kFp32, {5000, 3}}, {kLong, {5000, 3}}},
       {0, 1},
       "60000 120000 12 24 24 46080 3072 360 360 1279 1279 120000 60000 60000 60000 120000 120000 "
       "120000 60000 194047 6655 120000"},
      {"topk",
       {kFp32, {30000, 3}},
       {{kFp32, {5000, 3}}, {kLong, {5000, 3}}},
       {0, 0},
       "60000 120000 12 24 24 46080 3072 360 360 1279 1279"},
      {"mode", {kFp32, {20, 300}}, {{kFp32, {20}}, {kLong, {20}}}, {1}, "80 160"},
      {"mode", {kFp32, {20, 300}}, {{kFp32, {300}}, {kLong, {300}}}, {0}, "1200 2400 24000"},
      // The result has the storage of all elements.
      {"unique",
       {kInt, {kMillion}},
       {{kInt, {7}}, {kLong, {0}}, {kLong, {0}}},
       {0, 0},
       "4000000 4136703 4000000 8 2559"},
      {"unique",
       {kInt, {kMillion}},
       {{kInt, {7}}, {kLong, {kMillion}}, {kLong, {kMillion}}},
       {1, 1},
       "4000000 8000000 8000000 12342527 8000000 8000000 3071 4000000 8 8000000 21759"},
      {"unique_consecutive",
       {kInt, {kMillion}},
       {{kInt, {7}}, {kLong, {0}}, {kLong, {0}}},
       {0, 0},
       "4000000 8 2559"},
      {"nonzero.self", {kBool, {kMillion}}, {{kLong, {5, 1}}}, {}, "4 17663 40 4351"},
      {"histc", {kFp32, {kMillion}}, {{kFp32, {100}}}, {0}, "400 4 492 4 4 492 4"},
      {"histc", {kFp32, {kMillion}}, {{kFp32, {100}}}, {}, "400"},
      {"multinomial", {kFp32, {64, 5000}}, {{kLong, {64, 7}}}, {1}, "3584 1280000 1280000 1280000"},
      {"multinomial", {kFp32, {64, 5000}}, {{kLong, {64, 7}}}, {0}, "3584 1280000 1792"},
      // One row is scanned by CUB.
      {"cumsum", {kFp32, {kMillion}}, {{kFp32, {kMillion}}}, {0}, "4000000 5119"},
      {"cumsum", {kFp32, {64, 5000}}, {{kFp32, {64, 5000}}}, {1}, "1280000"},
      {"cumsum", {kInt, {kMillion}}, {{kLong, {kMillion}}}, {0}, "8000000 8000000 18943"},
      {"cumprod", {kBf16, {kMillion}}, {{kBf16, {kMillion}}}, {0}, "2000000 3327"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    CAPTURE(row.x.dims);
    CHECK(Forward(row) == row.forward);
  }
}

// No input: as torch.randperm.
TEST_CASE("a random order sorts what it draws") {
  struct Order {
    int64_t count;
    const char* forward;
  };
  const Order rows[] = {{1000, "8000 8 8000 4000 4000 1"},
                        {20'000, "160000 8 160000 80000 80000 255999"},
                        {50'000, "400000 8 400000 400000 400000 825343"},
                        {kMillion, "8000000 8 8000000 8000000 8000000 16280063"}};
  for (const Order& row : rows) {
    CAPTURE(row.count);
    Row call = {"randperm", {kFp32, {2}}, {{kLong, {row.count}}}, {}, ""};
    CHECK(Forward(call) == row.forward);
  }
}

}  // namespace
}  // namespace onnxfit::sorts_test

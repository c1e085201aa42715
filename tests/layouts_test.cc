// What torch 2.11 allocates for operators whose input is not contiguous, in bytes and in order: in
// forward, in backward of a contiguous gradient, and of one that lies as the input does.  Recorded
// events.
#include "estimator/operators/layouts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::layouts_test {
namespace {

// Of what is stored: channels last, or all dimensions reversed.
enum class Order : uint8_t { kLast, kReversed };
constexpr Order kLast = Order::kLast;
constexpr Order kReversed = Order::kReversed;

// The dimensions of x among those that are stored.
std::vector<int64_t> PermutationOf(Order order, size_t rank) {
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  if (order == kReversed) return {dims.rbegin(), dims.rend()};
  std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

class Writer {
 public:
  NameId Parameter(TensorType type) {
    const NameId name = Value(std::move(type));
    program.parameters.push_back(name);
    program.placement.push_back(name);
    return name;
  }

  NameId Call(std::string_view op, NameId input, Dims dims, std::vector<int64_t> ints = {}) {
    const NameId result = Value({DType::kFloat32, std::move(dims)});
    program.calls.push_back({.op = op,
                             .where = std::string(op),
                             .inputs = {input},
                             .outputs = {result},
                             .ints = std::move(ints)});
    return result;
  }

  Program program;

 private:
  NameId Value(TensorType type) {
    program.values.push_back({"v", {std::move(type), {}}});
    return static_cast<NameId>(program.values.size() - 1);
  }
};

// x is `op` of a parameter that is stored in the order; its result is seen in the order again
// before it is copied, if the gradient is to lie so.
std::string Sizes(std::string_view op, Order order, const Dims& x, const Dims& result,
                  bool gradient_as_stored, std::string_view phase) {
  Writer writer;
  const std::vector<int64_t> seen = PermutationOf(order, x.size());
  const NameId stored = writer.Parameter({DType::kFloat32, Permuted(x, Inverse(seen))});
  const NameId input = writer.Call("permute", stored, x, seen);
  const std::vector<int64_t> last_axis = {3};
  NameId made = writer.Call(op, input, result, op == "sort" ? last_axis : std::vector<int64_t>());
  if (op == "topk" || op == "sort") {
    writer.program.values.push_back({"places", {{DType::kInt64, result}, {}}});
    writer.program.calls.back().outputs.push_back(
        static_cast<NameId>(writer.program.values.size() - 1));
  }
  if (gradient_as_stored) {
    const std::vector<int64_t> back = Inverse(PermutationOf(order, result.size()));
    made = writer.Call("permute", made, Permuted(result, back), back);
  }
  writer.program.loss = writer.Call("exp", made, writer.program.values[Index(made)].type.dims);
  const Trace trace = Train(std::move(writer.program), {.optimizer = Optimizer::kNone, .steps = 1});
  std::string text;
  bool is_phase = false;
  bool is_op = false;
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) {
      is_phase = (event.phase == Phase::kForward && phase == "forward") ||
                 (event.phase == Phase::kBackward && phase == "backward");
    }
    if (event.type == Event::Type::kAt) is_op = trace.labels[Index(event.id)] == op;
    if (event.type != Event::Type::kAlloc || !is_phase || !is_op) continue;
    text += fmt::format("{}{}", text.empty() ? "" : " ", trace.buffers[Index(event.id)].bytes);
  }
  return text;
}

struct Row {
  const char* op;
  Order order;
  Dims x;
  Dims result;
  const char* forward;
  const char* dense;
  const char* as_stored;
};

TEST_CASE("results keep memory formats, and kernels copy what lies otherwise") {
  const Row rows[] = {
      {"max_pool2d", kLast, {2, 6, 4, 8}, {2, 6, 2, 4}, "384 768", "1536 384", "1536"},
      {"max_pool2d",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 2, 4},
       "384 768 1536",
       "1536 1536",
       "1536 1536 384"},
      {"max_pool1d", kLast, {2, 6, 8}, {2, 6, 4}, "192 384", "384 192", "384"},
      {"max_pool1d", kReversed, {2, 6, 8}, {2, 6, 4}, "192 384 384", "384 384", "384 384 192"},
      {"max_pool3d", kLast, {2, 6, 4, 6, 8}, {2, 6, 2, 3, 4}, "1152 2304", "9216 1152", "9216"},
      {"max_pool3d",
       kReversed,
       {2, 6, 4, 6, 8},
       {2, 6, 2, 3, 4},
       "1152 2304 9216",
       "9216",
       "9216 1152"},
      {"adaptive_max_pool2d",
       kLast,
       {2, 6, 4, 8},
       {2, 6, 2, 4},
       "384 768 384 768 1536",
       "1536 768 1536",
       "1536 384 768 1536"},
      {"adaptive_max_pool2d",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 2, 4},
       "384 768 1536",
       "1536",
       "1536 384"},
      {"adaptive_max_pool3d",
       kLast,
       {2, 6, 4, 6, 8},
       {2, 6, 2, 3, 4},
       "1152 2304 9216",
       "9216",
       "9216 1152"},
      {"adaptive_max_pool3d",
       kReversed,
       {2, 6, 4, 6, 8},
       {2, 6, 2, 3, 4},
       "1152 2304 9216",
       "9216",
       "9216 1152"},
      {"avg_pool1d", kLast, {2, 6, 8}, {2, 6, 4}, "192", "384 192", "384"},
      {"avg_pool1d", kReversed, {2, 6, 8}, {2, 6, 4}, "192 384", "384 384", "384 384 192"},
      {"avg_pool2d", kLast, {2, 6, 4, 8}, {2, 6, 2, 4}, "384", "1536 384", "1536"},
      {"avg_pool2d",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 2, 4},
       "384 1536",
       "1536 1536",
       "1536 1536 384"},
      {"avg_pool3d", kLast, {2, 6, 4, 6, 8}, {2, 6, 2, 3, 4}, "1152 9216", "9216", "9216 1152"},
      {"avg_pool3d", kReversed, {2, 6, 4, 6, 8}, {2, 6, 2, 3, 4}, "1152 9216", "9216", "9216 1152"},
      {"adaptive_avg_pool2d", kLast, {2, 6, 4, 8}, {2, 6, 2, 4}, "384", "1536", "1536"},
      {"adaptive_avg_pool2d",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 2, 4},
       "1536 384",
       "1536",
       "1536 384"},
      // A mean, in the format that its strides say.
      {"adaptive_avg_pool2d", kLast, {2, 6, 4, 8}, {2, 6, 1, 1}, "48", "48 1536", "48 1536"},
      {"adaptive_avg_pool2d", kReversed, {2, 6, 4, 8}, {2, 6, 1, 1}, "48", "1536", "1536"},
      {"adaptive_avg_pool1d", kLast, {2, 6, 8}, {2, 6, 1}, "48", "48 384", "48 384"},
      {"adaptive_avg_pool3d",
       kLast,
       {2, 6, 4, 6, 8},
       {2, 6, 2, 3, 4},
       "9216 1152",
       "9216",
       "9216 1152"},
      {"adaptive_avg_pool3d",
       kReversed,
       {2, 6, 4, 6, 8},
       {2, 6, 2, 3, 4},
       "9216 1152",
       "9216",
       "9216 1152"},
      {"upsample_nearest1d", kLast, {2, 6, 8}, {2, 6, 16}, "768 384", "384", "384 768"},
      {"upsample_nearest1d", kReversed, {2, 6, 8}, {2, 6, 16}, "768 384", "384", "384 768"},
      {"upsample_nearest2d", kLast, {2, 6, 4, 8}, {2, 6, 8, 16}, "6144", "1536", "1536"},
      {"upsample_nearest2d",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 8, 16},
       "6144 1536",
       "1536",
       "1536 6144"},
      {"upsample_nearest2d",
       kLast,
       {2, 3, 4, 8},
       {2, 3, 8, 16},
       "3072 3072 768",
       "768",
       "768 768 3072"},
      {"upsample_nearest2d", kReversed, {2, 3, 4, 8}, {2, 3, 8, 16}, "3072 768", "768", "768 3072"},
      {"upsample_nearest3d",
       kLast,
       {2, 6, 4, 6, 8},
       {2, 6, 8, 12, 16},
       "73728 73728 9216",
       "9216",
       "9216 73728"},
      {"upsample_nearest3d",
       kReversed,
       {2, 6, 4, 6, 8},
       {2, 6, 8, 12, 16},
       "73728 9216",
       "9216",
       "9216 73728"},
      {"upsample_bilinear2d", kLast, {2, 6, 4, 8}, {2, 6, 8, 16}, "6144", "1536", "1536"},
      {"upsample_bilinear2d", kReversed, {2, 6, 4, 8}, {2, 6, 8, 16}, "6144", "1536", "1536 6144"},
      {"upsample_bilinear2d", kLast, {2, 3, 4, 8}, {2, 3, 8, 16}, "3072", "768", "768 768 3072"},
      {"upsample_bilinear2d", kReversed, {2, 3, 4, 8}, {2, 3, 8, 16}, "3072", "768", "768 3072"},
      {"upsample_bicubic2d", kLast, {2, 6, 4, 8}, {2, 6, 8, 16}, "6144", "1536", "1536 6144"},
      {"upsample_bicubic2d", kReversed, {2, 6, 4, 8}, {2, 6, 8, 16}, "6144", "1536", "1536 6144"},
      {"upsample_trilinear3d",
       kLast,
       {2, 6, 4, 6, 8},
       {2, 6, 8, 12, 16},
       "73728",
       "9216",
       "9216 73728 9216"},
      {"upsample_trilinear3d",
       kReversed,
       {2, 6, 4, 6, 8},
       {2, 6, 8, 12, 16},
       "73728",
       "9216",
       "9216 73728"},
      {"_upsample_bilinear2d_aa",
       kLast,
       {2, 6, 4, 8},
       {2, 6, 8, 16},
       "6144 6144 1536",
       "1536",
       "1536 6144"},
      {"_upsample_bilinear2d_aa",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 8, 16},
       "6144 1536",
       "1536",
       "1536 6144"},
      {"_upsample_bicubic2d_aa",
       kLast,
       {2, 6, 4, 8},
       {2, 6, 8, 16},
       "6144 6144 1536",
       "1536",
       "1536 6144"},
      {"_upsample_bicubic2d_aa",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 8, 16},
       "6144 1536",
       "1536",
       "1536 6144"},
      {"pad", kLast, {2, 6, 4, 8}, {2, 6, 6, 10}, "2880", "1536", "1536"},
      {"pad", kReversed, {2, 6, 4, 8}, {2, 6, 6, 10}, "2880", "1536", "1536"},
      {"pad.reflect", kLast, {2, 6, 4, 8}, {2, 6, 6, 10}, "2880 1536", "1536", "1536 2880"},
      {"pad.reflect", kReversed, {2, 6, 4, 8}, {2, 6, 6, 10}, "2880 1536", "1536", "1536 2880"},
      {"pad.copies", kLast, {2, 6, 4, 8}, {2, 6, 6, 10}, "2880", "1536", "1536"},
      {"pad.copies", kReversed, {2, 6, 4, 8}, {2, 6, 6, 10}, "2880", "1536", "1536"},
      {"softmax", kLast, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536 1536", "1536 1536", "1536 1536 1536"},
      {"softmax",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 4, 8},
       "1536 1536",
       "1536 1536",
       "1536 1536 1536"},
      {"log_softmax", kLast, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536 1536", "1536", "1536 1536"},
      {"log_softmax", kReversed, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536 1536", "1536", "1536 1536"},
      {"flip", kLast, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536", "1536", "1536"},
      {"flip", kReversed, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536", "1536", "1536"},
      {"clone", kLast, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536", "", ""},
      {"clone", kReversed, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536", "", ""},
      {"glu", kLast, {2, 6, 4, 8}, {2, 3, 4, 8}, "768", "1536", "1536"},
      {"glu", kReversed, {2, 6, 4, 8}, {2, 3, 4, 8}, "768", "1536", "1536"},
      {"cumsum",
       kLast,
       {2, 6, 4, 8},
       {2, 6, 4, 8},
       "1536 1536",
       "1536 1536 1536",
       "1536 1536 1536 1536"},
      {"cumsum",
       kReversed,
       {2, 6, 4, 8},
       {2, 6, 4, 8},
       "1536 1536",
       "1536 1536 1536",
       "1536 1536 1536 1536"},
      {"topk", kLast, {2, 6, 4, 8}, {2, 6, 4, 2}, "384 768 1536", "1536", "1536"},
      {"topk", kReversed, {2, 6, 4, 8}, {2, 6, 4, 2}, "384 768 1536", "1536", "1536"},
      {"sort", kLast, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536 3072 64", "1536", "1536"},
      {"sort", kReversed, {2, 6, 4, 8}, {2, 6, 4, 8}, "1536 3072 64", "1536", "1536"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.op);
    CAPTURE((row.order == kLast));
    CAPTURE(row.x.size());
    CHECK(Sizes(row.op, row.order, row.x, row.result, false, "forward") == row.forward);
    CHECK(Sizes(row.op, row.order, row.x, row.result, false, "backward") == row.dense);
    CHECK(Sizes(row.op, row.order, row.x, row.result, true, "backward") == row.as_stored);
  }
}

TEST_CASE("a format is suggested where strides say so") {
  const auto suggested = [](Dims dims, Dims strides) {
    return SuggestedFormat({{DType::kFloat32, std::move(dims)}, std::move(strides)}) ==
           MemoryFormat::kChannelsLast;
  };
  CHECK(suggested({2, 6, 4, 8}, {192, 1, 48, 6}));
  CHECK_FALSE(suggested({2, 6, 4, 8}, {192, 32, 8, 1}));
  CHECK_FALSE(suggested({2, 6, 4, 8}, {1, 2, 12, 48}));  // another order
  CHECK(suggested({2, 6, 1, 8}, {48, 1, 48, 6}));
  CHECK_FALSE(suggested({2, 6, 8}, {48, 1, 6}));          // no picture
  CHECK_FALSE(suggested({2, 1, 1, 1}, {1, 1, 1, 1}));     // says nothing
  CHECK_FALSE(suggested({2, 6, 4, 8}, {192, 0, 48, 6}));  // one channel, expanded
  CHECK(suggested({2, 6, 4, 8}, {384, 1, 96, 12}));       // a part of more channels
  CHECK(suggested({2, 6, 3, 4, 8}, {576, 1, 192, 48, 6}));
}

}  // namespace
}  // namespace onnxfit::layouts_test

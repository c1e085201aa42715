// Which kernel torch._fused_sdp_choice names, by version and card: C cuDNN's, F flash, E the
// memory-efficient one, M none.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "estimator/operators/attention_kernels.h"
#include "tests/trace_helpers.h"

namespace onnxfit::attention_choice_test {
namespace {

// [4, heads, rows, size] that lies as [4, rows, heads, size] does.
StridedType Operand(DType dtype, int64_t heads, int64_t rows, int64_t size) {
  return {{dtype, {4, heads, rows, size}}, {heads * rows * size, size, heads * size, 1}};
}

struct Call {
  const char* name;
  int64_t head_size = 64;
  int64_t value_size = 64;
  int64_t key_heads = 8;
  int64_t rows = 128;
  int64_t keys = 128;
  bool drops = false;
  AttentionTerms terms = {.needs_grad = true};
};

AttentionTerms Masked(DType dtype, bool needs_grad) {
  return {
      .mask = Contiguous({dtype, {128, 128}}), .needs_grad = true, .mask_needs_grad = needs_grad};
}

const Call kCalls[] = {
    {"64", 64, 64},
    {"96", 96, 96},
    {"128", 128, 128},
    {"136", 136, 136},
    {"160", 160, 160},
    {"192", 192, 192},
    {"224", 224, 224},
    {"256", 256, 256},
    {"36", 36, 36},
    {"30", 30, 30},
    {.name = "drops", .drops = true},
    {.name = "causal", .terms = {.is_causal = true, .needs_grad = true}},
    {.name = "bools", .terms = Masked(DType::kBool, false)},
    {.name = "floats", .terms = Masked(DType::kFloat32, false)},
    {.name = "grouped", .key_heads = 2},
    {.name = "more keys", .keys = 300},
    {.name = "more keys, causal", .keys = 300, .terms = {.is_causal = true, .needs_grad = true}},
    {.name = "one row", .rows = 1},
    {.name = "one key", .keys = 1},
    {.name = "197", .rows = 197, .keys = 197},
    {.name = "trained mask", .terms = Masked(DType::kFloat32, true)},
    {.name = "short values", .value_size = 32},
    {"192 and 128", 192, 128},
    {.name = "256 without gradients", .head_size = 256, .value_size = 256, .terms = {}},
    {.name = "256, drops", .head_size = 256, .value_size = 256, .drops = true},
    {.name = "224, drops", .head_size = 224, .value_size = 224, .drops = true},
};

std::string Choices(std::string_view version, int capability, DType dtype) {
  DeviceProfile device = DefaultDevice();
  device.compute_capability = capability;
  const FrameworkProfile* found = &DefaultFramework();
  for (const FrameworkProfile& framework : Frameworks()) {
    if (framework.name == version) found = &framework;
  }
  std::string letters;
  for (const Call& call : kCalls) {
    const Attention attention = {Operand(dtype, 8, call.rows, call.head_size),
                                 Operand(dtype, call.key_heads, call.keys, call.head_size),
                                 Operand(dtype, call.key_heads, call.keys, call.value_size),
                                 call.drops};
    const AttentionKernel kernel = ChooseAttention(attention, call.terms, *found, device);
    letters += "CFEM"[static_cast<size_t>(kernel)];
  }
  return letters;
}

struct Row {
  const char* version;
  int capability;
  DType dtype;
  const char* choices;
};

// check_head_dim_size_mem_efficient: of values, too.
TEST_CASE("heads of values have to be aligned as those of keys") {
  const auto choice = [](int64_t value_size) {
    const Attention attention = {Operand(DType::kFloat32, 8, 128, 64),
                                 Operand(DType::kFloat32, 8, 128, 64),
                                 Operand(DType::kFloat32, 8, 128, value_size)};
    return ChooseAttention(attention, {.needs_grad = true}, DefaultFramework(), DefaultDevice());
  };
  CHECK(choice(32) == AttentionKernel::kEfficient);
  CHECK(choice(30) == AttentionKernel::kMath);
}

// A T5's: biases of a table, [S, K, H] permuted.  As an H200 ran it, torch 2.11.
TEST_CASE("no fused kernel takes a mask whose rows do not lie densely") {
  const Attention attention = {Operand(DType::kBFloat16, 8, 128, 64),
                               Operand(DType::kBFloat16, 8, 128, 64),
                               Operand(DType::kBFloat16, 8, 128, 64)};
  const DeviceProfile hopper = {.compute_capability = 90, .multiprocessors = 132};
  const auto choice = [&](const Dims& strides) {
    AttentionTerms terms;
    terms.mask = StridedType{{DType::kBFloat16, {1, 8, 128, 128}}, strides};
    return ChooseAttention(attention, terms, DefaultFramework(), hopper);
  };
  CHECK(choice({8 * 128 * 128, 128 * 128, 128, 1}) == AttentionKernel::kCudnn);
  CHECK(choice({8 * 128 * 128, 1, 8 * 128, 8}) == AttentionKernel::kMath);
}

TEST_CASE("the kernel that attention takes, by version and card") {
  const Row rows[] = {
      {"pytorch-2.10", 90, DType::kBFloat16, "FFFFFFFFFFFFEEFFEFFFEEEFFF"},
      {"pytorch-2.11", 75, DType::kBFloat16, "MMMMMMMMMMMMMMMMMMMMMMMMMM"},
      {"pytorch-2.11", 75, DType::kFloat16, "EEEEEEEEMMEEEEMEEEEEEEEEEE"},
      {"pytorch-2.11", 75, DType::kFloat32, "EEEEEEEEEEEEEEMEEEEEEEEEEE"},
      {"pytorch-2.11", 80, DType::kBFloat16, "FFFFFFFFFFFFEEFFEFFFEEEFFF"},
      {"pytorch-2.11", 80, DType::kFloat32, "EEEEEEEEEMEEEEMEEEEEEEEEEE"},
      {"pytorch-2.11", 86, DType::kBFloat16, "FFFFFFEFFFFFEEFFEFFFEEEFEE"},
      {"pytorch-2.11", 90, DType::kBFloat16, "CCCCCCCCFFCCCCCCCCFCECCCCC"},
      {"pytorch-2.11", 90, DType::kFloat32, "EEEEEEEEEMEEEEMEEEEEEEEEEE"},
      {"pytorch-2.11", 100, DType::kBFloat16, "CCCFFFFFFFCCCCCCCCFCECCFFF"},
      {"pytorch-2.11", 100, DType::kFloat32, "EEEEEEEEEMEEEEMEEEEEEEEEEE"},
      {"pytorch-2.11", 120, DType::kBFloat16, "FFFFFFEFFFFFEEFFEFFFEEEFEE"},
      {"pytorch-2.12", 90, DType::kBFloat16, "CCCCCCCCFFFCCCCCCCFCECCCFF"},
      {"pytorch-2.12", 100, DType::kBFloat16, "CCCFFFFFFFFCCCCCCCFCECCFFF"},
      {"pytorch-2.15", 75, DType::kBFloat16, "MMMMMMMMMMMMMMMMMMMMMMMMMM"},
      {"pytorch-2.15", 75, DType::kFloat16, "EEEEEEEEMMEEEEEEEEEEEEEEEE"},
      {"pytorch-2.15", 75, DType::kFloat32, "EEEEEEEEEEEEEEEEEEEEEEEEEE"},
      {"pytorch-2.15", 80, DType::kBFloat16, "FFFFFFFFFFFFEEFFEFFFEEEFFF"},
      {"pytorch-2.15", 80, DType::kFloat32, "EEEEEEEEEMEEEEEEEEEEEEEEEE"},
      {"pytorch-2.15", 90, DType::kBFloat16, "CCCFFFFCFFFCCCCCCCFCECCCFF"},
      {"pytorch-2.15", 90, DType::kFloat32, "EEEEEEEEEMEEEEEEEEEEEEEEEE"},
      {"pytorch-2.15", 100, DType::kBFloat16, "CCCFFFFCFFFCCCCCCCFCECCCFF"},
      {"pytorch-2.15", 100, DType::kFloat32, "EEEEEEEEEMEEEEEEEEEEEEEEEE"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.version);
    CAPTURE(row.capability);
    CHECK(Choices(row.version, row.capability, row.dtype) == row.choices);
  }
}

}  // namespace
}  // namespace onnxfit::attention_choice_test

// How what ranks share passes through calls.
#include "estimator/transforms/shard_rules.h"

#include <doctest/doctest.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit::shard_rules_test {
namespace {

// An operand of a call, and which of its dimensions is shared; -1: none.
struct Operand {
  Dims dims;
  int dim = -1;
};

constexpr std::optional<Shard> kNotKnown;

// Of a call of `op`, for two ranks.
std::optional<Shard> Behind(std::string_view op, const std::vector<Operand>& inputs, Dims out,
                            std::vector<int64_t> ints = {}) {
  Program program;
  AtenCall call = {.op = op, .where = "", .ints = std::move(ints)};
  const auto add = [&](Dims dims) {
    program.values.push_back({.name = "", .type = {{DType::kFloat32, std::move(dims)}, {}}});
    return static_cast<NameId>(program.values.size()) - 1;
  };
  for (const Operand& input : inputs) call.inputs.push_back(add(input.dims));
  call.outputs = {add(std::move(out))};
  const ShardOf shard_of = [&](NameId name) {
    const bool is_input = Index(name) < inputs.size() && inputs[Index(name)].dim >= 0;
    return is_input ? std::optional(Shard{static_cast<size_t>(inputs[Index(name)].dim), 1})
                    : std::nullopt;
  };
  return ShardBehind(program, call, shard_of, 2);
}

}  // namespace

// [batch, tokens, features], heads of 64.
TEST_CASE("features are seen as heads, and heads as features") {
  CHECK(Behind("view", {{{4, 8, 768}, 2}}, {4, 8, 12, 64}) == Shard{2});
  CHECK(Behind("view", {{{4, 8, 12, 64}, 2}}, {4, 8, 768}) == Shard{2});
  CHECK(Behind("view", {{{4, 8, 768}, 2}}, {32, 768}) == Shard{1});
  CHECK(Behind("view", {{{4, 12, 8, 64}, 1}}, {48, 8, 64}) == Shard{0, 4});
  CHECK(Behind("view", {{{4, 8, 704}, 2}}, {4, 8, 11, 64}) == kNotKnown);  // odd heads
  CHECK(Behind("view", {{{4, 8, 768}, 2}}, {4, 8, 1, 768}) == Shard{3});
}

TEST_CASE("dimensions that move, and parts of others") {
  CHECK(Behind("permute", {{{4, 8, 12, 64}, 2}}, {4, 12, 8, 64}, {0, 2, 1, 3}) == Shard{1});
  CHECK(Behind("slice", {{{4, 12, 8, 64}, 1}}, {4, 12, 8, 32}) == Shard{1});
  CHECK(Behind("slice", {{{4, 12, 8, 64}, 1}}, {4, 6, 8, 64}) == kNotKnown);
  CHECK(Behind("select", {{{4, 12, 8, 64}, 1}}, {12, 8, 64}, {0}) == Shard{0});
  CHECK(Behind("select", {{{4, 12, 8, 64}, 1}}, {4, 8, 64}, {1}) == kNotKnown);
  CHECK(Behind("cat", {{{4, 12, 8, 32}, 1}, {{4, 12, 8, 32}, 1}}, {4, 12, 8, 64}) == Shard{1});
  CHECK(Behind("cat", {{{4, 12, 8, 32}, 1}, {{4, 12, 8, 32}}}, {4, 12, 8, 64}) == kNotKnown);
  CHECK(Behind("expand", {{{4, 2, 1, 8, 64}, 1}}, {4, 2, 6, 8, 64}) == Shard{1});
}

TEST_CASE("elements meet those of the same rank, or what is the same for all") {
  CHECK(Behind("mul", {{{4, 12, 8, 64}, 1}, {{1, 1, 8, 64}}}, {4, 12, 8, 64}) == Shard{1});
  CHECK(Behind("mul", {{{64}}, {{4, 12, 8, 64}, 1}}, {4, 12, 8, 64}) == Shard{1});
  // T5's bias by positions has all heads.
  CHECK(Behind("add", {{{4, 12, 8, 8}, 1}, {{1, 12, 8, 8}}}, {4, 12, 8, 8}) == kNotKnown);
  CHECK(Behind("add", {{{4, 8, 64}, 2}, {{4, 8, 64}, 1}}, {4, 8, 64}) == kNotKnown);
  CHECK(Behind("type_as", {{{4, 8, 64}, 2}, {{32, 64}}}, {4, 8, 64}) == Shard{2});
}

TEST_CASE("rows are along other dimensions") {
  CHECK(Behind("softmax", {{{4, 12, 8, 8}, 1}}, {4, 12, 8, 8}) == Shard{1});
  CHECK(Behind("softmax", {{{4, 12, 8, 8}, 1}}, {4, 12, 8, 8}, {1}) == kNotKnown);
  CHECK(Behind("layer_norm", {{{4, 8, 12, 64}, 2}, {{64}}}, {4, 8, 12, 64}) == Shard{2});
  CHECK(Behind("layer_norm", {{{4, 8, 768}, 2}, {{768}}}, {4, 8, 768}) == kNotKnown);
  CHECK(Behind("mean", {{{4, 8, 12, 64}, 2}}, {4, 8, 12, 1}) == Shard{2});
  CHECK(Behind("mean", {{{4, 8, 64}, 2}}, {4, 8, 1}) == kNotKnown);
}

TEST_CASE("attention is of heads") {
  const Operand heads = {{4, 12, 8, 64}, 1};
  const Dims out = {4, 12, 8, 64};
  const auto attention = [&](const std::vector<Operand>& inputs) {
    return Behind("scaled_dot_product_attention", inputs, out, {0, 0});
  };
  CHECK(attention({heads, heads, heads}) == Shard{1});
  CHECK(attention({heads, heads, heads, {{4, 1, 8, 8}}}) == Shard{1});
  CHECK(attention({heads, heads, heads, {{4, 12, 8, 8}}}) == kNotKnown);
  CHECK(attention({heads, {{4, 1, 8, 64}}, heads}) == kNotKnown);  // one head of keys for all
  CHECK(Behind("matmul", {heads, {{4, 12, 64, 8}, 1}}, {4, 12, 8, 8}) == Shard{1});
  CHECK(Behind("matmul", {{{4, 8, 64}, 2}, {{4, 64, 8}, 1}}, {4, 8, 8}) == kNotKnown);
  CHECK(Behind("nothing_known", {heads}, out) == kNotKnown);
}

}  // namespace onnxfit::shard_rules_test

// What a loop hands on from layer to layer beside its hidden states, in lines that make no call.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/death_of.h"

namespace onnxfit::taken_results_test {
namespace {

constexpr char kRelu[] = "return relu(x)";

// As transformers 4.51's T5Stack: "position_bias = layer_outputs[2]" is in no file.
TEST_CASE(
    "a bias that the first layer makes and all others read lives as long as the loop's forward") {
  struct Read {
    NameId bias;  // by the layers behind the first
    NameId last;  // by the last one
  };
  const auto death = [](const std::string& line, Read read) {
    const auto layer = [&](std::vector<NameId> inputs, const std::string& path) {
      return Line{std::move(inputs),
                  {"m", "m.stack", path},
                  {{9, "h = self.stack("}, {5, line}, {1, kRelu}}};
    };
    return DeathOf(1, {layer({0}, "m.stack.block.0"),
                       layer({0, 1}, "m.stack.block.0"),
                       layer({2, read.bias}, "m.stack.block.1"),
                       layer({3, read.last}, "m.stack.block.2"),
                       {{4}, {"m", "m.stack"}, {{9, "h = self.stack("}, {6, "h = norm(h)"}}},
                       {{5}, {"m"}, {{10, "return h.relu()"}}}});
  };
  constexpr char kLayer[] = "outputs = layer_module(";
  CHECK(death(kLayer, {.bias = 1, .last = 1}) == 4);
  CHECK(death(kLayer, {.bias = 2, .last = 1}) == 4);
  // The next layer alone reads it: it may have made its own.
  CHECK(death(kLayer, {.bias = 1, .last = 3}) == 2);
}

TEST_CASE("what all turns of a comprehension have made, a function may read") {
  constexpr char kStack[] = "tokens = torch.stack([embed(x[:, i]) for embed in self.embeds])";
  const auto embed = [&](NameId read, const std::string& path) {
    return Line{{read}, {"m", path}, {{5, kStack}, {1, kRelu}}};
  };
  const std::vector<Line> lines = {embed(0, "m.embeds.0"),
                                   embed(0, "m.embeds.0"),
                                   embed(0, "m.embeds.1"),
                                   embed(0, "m.embeds.2"),
                                   {{1, 2, 3, 4}, {"m"}, {{5, kStack}}},
                                   {{5}, {"m"}, {{6, "y = head(tokens)"}}},
                                   {{6}, {"m"}, {{7, "return y.relu()"}}}};
  CHECK(DeathOf(1, lines) == 4);
}

// What the line binds to a name of its own is dropped by that name.
TEST_CASE("what a second name of the loop's line holds is bound anew by the next turn") {
  const auto death = [](NameId last) {
    constexpr char kLayer[] = "x, bias = layer(x)";
    const auto layer = [&](std::vector<NameId> inputs, const std::string& path) {
      return Line{std::move(inputs), {"m", path}, {{5, kLayer}, {1, kRelu}}};
    };
    return DeathOf(1, {layer({0}, "m.block.0"),
                       layer({0, 1}, "m.block.0"),
                       layer({2, 1}, "m.block.1"),
                       layer({3, last}, "m.block.2"),
                       {{4}, {"m"}, {{6, "return x.relu()"}}}});
  };
  CHECK(death(1) == 3);
}

}  // namespace
}  // namespace onnxfit::taken_results_test

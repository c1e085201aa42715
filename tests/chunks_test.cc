#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::chunks_test {
namespace {

// x [2, 8], of which `slices` makes a and b, and a + b.
std::string ProgramOf(const std::string& slices) {
  const std::string numbers =
      "zero = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> () "
      "two = Constant <value_ints = [2]> () four = Constant <value_ints = [4]> () "
      "half = Mul (four, one) all = Mul (four, two) ";
  return ToString(Build("net (float[2, 8] x) => (float[2, 4] y) { " + numbers + slices +
                            " [add] y = Add (a, b) }",
                        {.mode = Mode::kEval})
                      .program);
}

TEST_CASE("slices, each of which begins at the product at which the last one ends, are a chunk") {
  CHECK(ProgramOf("[a] a = Slice (x, zero, half, one) [b] b = Slice (x, half, all, one)") ==
        "\n%a, %b = split(%x)  # b\n%y = add(%a, %b)  # add\n");
}

TEST_CASE("slices that a model's code takes stay slices") {
  const std::string slices =
      "\n%a = slice(%x)  # a\n%b = slice(%x)  # b\n%y = add(%a, %b)  # add\n";
  CHECK(ProgramOf("[a] a = Slice (x, zero, four, one) [b] b = Slice (x, four, all, one)") ==
        slices);
  CHECK(ProgramOf("other = Mul (one, four) [a] a = Slice (x, zero, half, one) "
                  "[b] b = Slice (x, other, all, one)") == slices);
  CHECK(ProgramOf("[a] a = Slice (x, zero, half, one) end = Constant <value_ints = [8]> () "
                  "[b] b = Slice (x, half, end, one)") == slices);
}

}  // namespace
}  // namespace onnxfit::chunks_test

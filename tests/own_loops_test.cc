#include "estimator/locals/own_loops.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/known_names.h"

namespace onnxfit::own_loops_test {
namespace {

// "for _ in range(turns): c = b * -c + c", which begins with value `c` and ends with the result.
std::string Loop(const std::string& c, int turns) {
  std::string text;
  for (int i = 0; i < turns; ++i) {
    const std::string before = i == 0 ? c : c + std::to_string(i);
    const std::string turn = c + std::to_string(i + 1);
    text += "n" + turn + " = Neg (" + before + ") m" + turn + " = Mul (b, n" + turn + ") " + turn +
            " = Add (m" + turn + ", " + before + ") ";
  }
  return text;
}

// "b until Tanh #12; ": which value is held until which call has returned.
std::string Looped(const std::string& loops, const std::string& last) {
  std::string found;
  for (const HeldName& held :
       HeldNames("net (float[2, 8] x) => (float[2, 8] y) { b = Sin (x) c = Abs (x) " + loops +
                 "e = Exp (" + last + ") y = Tanh (e) }")) {
    if (held.name == "what a loop reads") found += held.value + (held.until_last ? " " : "? ");
  }
  return found;
}

}  // namespace

TEST_CASE("a loop has names for what each turn reads and what the last one hands on") {
  CHECK(Looped(Loop("c", 3), "c3") == "b c3 ");
  CHECK(Looped(Loop("c", 2), "c2").empty());
}

TEST_CASE("a loop that runs again may be a function's, whose names are gone") {
  CHECK(Looped(Loop("c", 3) + "d = Sqrt (c3) " + Loop("d", 3), "d3").empty());
}

}  // namespace onnxfit::own_loops_test

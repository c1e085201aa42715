#include "estimator/locals/handed_on.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/known_names.h"

namespace onnxfit::handed_on_test {
namespace {

// "t until /Exp; ": which value is held until which call has returned, as a turn of a loop reads
// it.
std::string HandedOn(const std::string& sum) {
  std::string found;
  for (const HeldName& held : HeldNames(R"(net (float[2, 8] x) => (float[2, 8] y) {
      ["/side.1/Abs"] a = Abs (x) ["/smooth.1/Neg"] p = Neg (a) ["/side.0/Tanh"] b = Tanh (x)
      ["/Sin"] u = Sin (a) ["/Add"] t = )" +
                                        sum + R"( ["/smooth.0/Neg"] q = Neg (t)
      ["/Mul"] m = Mul (p, q) ["/Exp"] y = Exp (m) })")) {
    if (held.name == "what a turn reads") found += held.value + " until " + held.until + "; ";
  }
  return found;
}

}  // namespace

// "side = self.side[i](x); top = side if top is None else sin(top) + side; self.smooth[i](top)"
TEST_CASE("a name of a loop holds what the next turn reads, the last one to the end") {
  CHECK(HandedOn("Add (u, b)") == "a until /Add; t until /Exp; b until /Exp; ");
}

TEST_CASE("operands in order need no name, and a sum takes the name of what it reads") {
  CHECK(HandedOn("Add (b, u)") == "a until /Add; t until /Exp; ");
  CHECK(HandedOn("Add (a, b)").empty());
}

}  // namespace onnxfit::handed_on_test

#include "estimator/locals/ordered_names.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/known_names.h"

namespace onnxfit::ordered_names_test {
namespace {

// "r until /Add": which value is held until which call has returned.
std::string Ordered(const std::string& body) {
  std::string found;
  for (
      const HeldName& held : HeldNames(
          R"(net (float[2, 3, 8] x) => (float[2, 3, 8] y) { d = Constant <value = int64[1] {1}> () )" +
          body + " }")) {
    if (held.name == "what is read out of order") found += held.value + " until " + held.until;
  }
  return found;
}

constexpr char kRows[] = R"(["/ReduceMax"] r = ReduceMax (x, d) )";

}  // namespace

// "r = x.amax(1, keepdim=True); y = -x + r.exp()"
TEST_CASE("what is made before an operand that its own line evaluates first has a name") {
  const std::string neg = R"(["/Neg"] n = Neg (x) )";
  const std::string sum = R"(["/Exp"] e = Exp (r) ["/Add"] y = Add (n, e))";
  CHECK(Ordered(kRows + neg + sum) == "r until /Add");
  CHECK(Ordered(neg + kRows + sum).empty());
}

TEST_CASE("what is made of it may take its name where it is as large") {
  CHECK(Ordered(R"(["/Abs"] r = Abs (x) ["/Neg"] n = Neg (x) ["/Exp"] e = Exp (r)
                   ["/Add"] y = Add (n, e))")
            .empty());
}

TEST_CASE("what a forward does again may be a function's, whose names are gone") {
  CHECK(Ordered(kRows + std::string(R"(["/Neg"] n = Neg (x) ["/Exp"] e = Exp (r)
                   ["/Add"] a = Add (n, e) ["/ReduceMax_1"] s = ReduceMax (a, d)
                   ["/Neg_1"] o = Neg (a) ["/Exp_1"] f = Exp (s) ["/Add_1"] y = Add (o, f))"))
            .empty());
}

TEST_CASE("inside of modules nothing is told by order") {
  CHECK(Ordered(R"(["/m/ReduceMax"] r = ReduceMax (x, d) ["/m/Neg"] n = Neg (x)
                   ["/m/Exp"] e = Exp (r) ["/m/Add"] y = Add (n, e))")
            .empty());
}

}  // namespace onnxfit::ordered_names_test

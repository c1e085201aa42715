#include <doctest/doctest.h>

#include <string>

#include "estimator/patterns/rewrites.h"
#include "tests/trace_helpers.h"

namespace onnxfit::token_positions_test {
namespace {

std::string Lowered(const std::string& body) {
  return ToString(
      Build("n (int64[2, 3] ids) => (int32[2, 3] y) { pad = Constant <value = int64 {1}>"
            " () one = Constant <value = int64 {1}> () " +
                body + " }",
            {.mode = Mode::kEval})
          .program);
}

TEST_CASE("positions are counted without padding, in 64 bits") {
  const std::string mask = "e = Equal (ids, pad) [Not] n = Not (e) [Cast] m = Cast <to = 6> (n) ";
  const std::string made = "\n%n = ne(%ids, none)  # Not\n%m = to(%n)  # Cast\n";
  CHECK(Lowered(mask + "s = CumSum (m, one) [Mul] y = Mul (s, m)") ==
        made +
            "%y.cumsum = cumsum(%m)  # Mul\n%y.to = to(%y.cumsum)  # Mul\n"
            "%y.add.Scalar = add.Scalar(%y.to)  # Mul\n%y = mul(%y.add.Scalar, %m)  # Mul\n");
  // A sum of something else, or one that is read again.
  CHECK(Lowered(mask + "k = Neg (m) [CumSum] s = CumSum (k, one) [Mul] y = Mul (s, m)")
            .ends_with("cumsum(%k)  # CumSum\n%y = mul(%s, %m)  # Mul\n"));
  CHECK(Lowered(mask + "[CumSum] s = CumSum (m, one) p = Mul (s, m) [Mul] y = Mul (s, p)")
            .ends_with("%y = mul(%s, %p)  # Mul\n"));
}

TEST_CASE("what is read elsewhere is no part of an inequality") {
  CHECK(Lowered("e = Equal (ids, pad) n = Not (e) o = Or (e, n) y = Cast <to = 6> (o)")
            .find("%n = logical_not(%e)") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::token_positions_test

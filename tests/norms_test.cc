#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit {
namespace {

std::string Lowered(const std::string& body, Precision precision = Precision::kFp32) {
  return ToString(Build(R"(net (float[2, 8] x) => (float[2, 8] y)
                           < float[8] w = ["location": "none"], float[8] b = ["location": "none"],
                             int64[1] last = {-1} > {
      two = Constant <value = float {2.0}> () one = Constant <value = float {1.0}> ()
      eps = Constant <value = float {1e-6}> () )" +
                            body + "}",
                        {.precision = precision, .mode = Mode::kEval})
                      .program);
}

TEST_CASE("one over a square root is rsqrt") {
  CHECK(Lowered("s = Sqrt (x) [r] y = Div (one, s)") == "\n%y = rsqrt(%x)  # r\n");
  CHECK(Lowered("s = Sqrt (x) [r] y = Reciprocal (s)") == "\n%y = rsqrt(%x)  # r\n");
  CHECK(Lowered("[s] s = Sqrt (x) [r] y = Div (two, s)") ==
        "\n%s = sqrt(%x)  # s\n%y = reciprocal(%s)  # r\n");
}

constexpr char kInverse[] = R"(
  p = Pow (c, two) m = ReduceMean (p, last) a = Add (m, eps) s = Sqrt (a) d = Div (one, s)
  h = Mul (c, d) )";

TEST_CASE("the cast of an RMS norm matters in 16 bits") {
  const std::string plain = "[c] c = Neg (x)" + std::string(kInverse) + "[n] y = Mul (w, h)";
  const std::string t5 = "c = Cast <to = 1> (x)" + std::string(kInverse) + "[n] y = Mul (w, h)";
  const std::string llama =
      "c = Cast <to = 1> (x)" + std::string(kInverse) + "k = Cast <to = 1> (h) [n] y = Mul (w, k)";
  constexpr char kRoot[] =
      "%y.mean = mean(%y.pow)  # n\n%y.add.Scalar = add.Scalar(%y.mean)  # n\n"
      "%y.rsqrt = rsqrt(%y.add.Scalar)  # n\n";
  const std::string root = kRoot;
  CHECK(Lowered(t5) == "\n%y.pow = pow(%x)  # n\n" + root +
                           "%y.mul = mul(%x, %y.rsqrt)  # n\n%y = mul(%w, %y.mul)  # n\n");
  CHECK(Lowered(llama) == Lowered(t5));
  CHECK(Lowered(t5, Precision::kBf16) ==
        "\n%y.to = to(%x)  # n\n%y.pow = pow(%y.to)  # n\n" + root +
            "%y.mul = mul(%x, %y.rsqrt)  # n\n%y = mul(%w, %y.mul)  # n\n");
  CHECK(Lowered(llama, Precision::kBf16) ==
        "\n%y.to = to(%x)  # n\n%y.pow = pow(%y.to)  # n\n" + root +
            "%y.mul = mul(%y.to, %y.rsqrt)  # n\n%y = mul(%w, %y.mul)  # n\n");
  CHECK(Lowered(plain, Precision::kBf16).find("= to(") == std::string::npos);
}

TEST_CASE("a layer norm in its parts is one call") {
  const std::string centred = "m = ReduceMean (x, last) c = Sub (x, m) p = Pow (c, two) ";
  const std::string scaled =
      "v = ReduceMean (p, last) a = Add (v, eps) s = Sqrt (a) d = Div (c, s) e = Mul (d, w) ";
  CHECK(Lowered(centred + scaled + "[n] y = Add (e, b)") == "\n%y = layer_norm(%x, %w, %b)  # n\n");
  CHECK(Lowered(centred + scaled + "f = Add (e, b) y = Add (f, c)").find("layer_norm") ==
        std::string::npos);
}

}  // namespace
}  // namespace onnxfit

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::norms_test {
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
        "\n%s = sqrt(%x)  # s\n%reciprocal = reciprocal(%s)  # r\n%y = mul.Scalar(%reciprocal)  # "
        "r\n");
}

constexpr char kInverse[] = R"(
  p = Pow (c, two) m = ReduceMean (p, last) a = Add (m, eps) s = Sqrt (a) d = Div (one, s)
  h = Mul (c, d) )";

TEST_CASE("the casts of an RMS norm, which files of fp32 models hide") {
  const std::string plain = "[c] c = Neg (x)" + std::string(kInverse) + "[n] y = Mul (w, h)";
  const std::string t5 = "c = Cast <to = 1> (x)" + std::string(kInverse) + "[n] y = Mul (w, h)";
  const std::string llama =
      "c = Cast <to = 1> (x)" + std::string(kInverse) + "k = Cast <to = 1> (h) [n] y = Mul (w, k)";
  const std::string root =
      "\n%y.to = to(%x)  # n\n%y.pow.Tensor_Scalar = pow.Tensor_Scalar(%y.to)  # n\n%y.mean = "
      "mean(%y.pow.Tensor_Scalar)  # n\n"
      "%y.add.Scalar = add.Scalar(%y.mean)  # n\n%y.rsqrt = rsqrt(%y.add.Scalar)  # n\n";
  const std::string scaled = "%y.to = to(%y.mul)  # n\n%y = mul(%w, %y.to)  # n\n";
  CHECK(Lowered(t5) == root + "%y.mul = mul(%x, %y.rsqrt)  # n\n" + scaled);
  CHECK(Lowered(llama) == root + "%y.mul = mul(%y.to, %y.rsqrt)  # n\n" + scaled);
  CHECK(Lowered(plain).find("= to(") == std::string::npos);
  // "return output * self.weight"
  const std::string meta = "c = Cast <to = 1> (x)" + std::string(kInverse) + "[n] y = Mul (h, w)";
  CHECK(Lowered(meta) == root +
                             "%y.mul = mul(%y.to, %y.rsqrt)  # n\n%y.to = to(%y.mul)  # n\n"
                             "%y = mul(%y.to, %w)  # n\n");
}

TEST_CASE("under autocast an RMS norm's result goes back to the type of what it norms") {
  const std::string inverse = "c = Cast <to = 1> (x)" + std::string(kInverse);
  const auto casts = [&](const std::string& body, Precision precision) {
    return Lowered(inverse + body, precision).find("= type_as(%y.mul, %x)") != std::string::npos;
  };
  CHECK(casts("k = Cast <to = 1> (h) [n] y = Mul (w, k)", Precision::kAmpBf16));
  CHECK_FALSE(casts("k = Cast <to = 1> (h) [n] y = Mul (w, k)", Precision::kBf16));
  CHECK_FALSE(casts("[n] y = Mul (w, h)", Precision::kAmpBf16));  // T5's
}

// The types of what `body` makes in bf16, in order.
std::string Types(const std::string& body) {
  const Program program =
      Build(
          "net (float[2, 8] x) => (float[2, 8] y) < float[8] w = [\"location\": \"none\"], "
          "int64[1] last = {-1} > { two = Constant <value = float {2.0}> () "
          "one = Constant <value = float {1.0}> () eps = Constant <value = float {1e-6}> () "
          "c = Cast <to = 1> (x)" +
              body + "}",
          {.precision = Precision::kBf16, .mode = Mode::kEval})
          .program;
  std::string types;
  for (const AtenCall& call : program.calls) {
    types += std::string(Name(program.values[Index(call.outputs[0])].type.dtype)) + " ";
  }
  return types;
}

TEST_CASE("between its casts an RMS norm is in fp32") {
  CHECK(Types(kInverse + std::string("y = Mul (w, h)")) ==
        "float32 float32 float32 float32 float32 float32 bfloat16 bfloat16 ");
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
}  // namespace onnxfit::norms_test

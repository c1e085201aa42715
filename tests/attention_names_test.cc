#include "estimator/locals/attention_names.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/trace_helpers.h"

namespace onnxfit::attention_names_test {
namespace {

// "q until /m/out/Neg as q": which value is held until which call has returned, and by which name.
std::string NamesIn(const std::string& body, Precision precision = Precision::kFp32) {
  const std::string graph = R"(net (float[2, 3, 8] x) => (float[2, 3, 8] y)
                               < float[8, 8] weight = ["location": "none"] > { )";
  const Program program =
      Build(graph + body + " }", {.precision = precision, .mode = Mode::kEval}).program;
  const auto last = static_cast<int64_t>(program.calls.size()) - 1;
  std::string found;
  for (const KnownName& known : FindAttentionNames(program, ModuleRuns(program), last)) {
    found += program.values[Index(known.value)].name + " until " +
             program.calls[Index(known.until)].where + " as " + known.name + "; ";
  }
  return found;
}

// Attention in module `m`, whose projections are called so.
std::string Attends(const std::string& q, const std::string& k, const std::string& v) {
  return "[\"/m/" + q + "/Neg\"] q = Neg (x) [\"/m/" + k + "/Abs\"] k = Abs (x) [\"/m/" + v +
         R"(/Tanh"] v = Tanh (x)
            ["/m/Transpose"] kt = Transpose <perm = [0, 2, 1]> (k) ["/m/MatMul"] s = MatMul (q, kt)
            ["/m/Softmax"] p = Softmax (s) ["/m/MatMul_1"] c = MatMul (p, v)
            ["/m/out/Neg"] o = Neg (c) ["/Exp"] y = Exp (o))";
}

TEST_CASE("a forward that attends holds q, k, v and the weights until it returns") {
  CHECK(NamesIn(Attends("q", "k", "v")) ==
        "q until /m/out/Neg as q; kt until /m/out/Neg as k; v until /m/out/Neg as v; "
        "p until /m/out/Neg as attn; ");
}

// "attn1 = q @ k.mT; attn2 = r @ k.mT; attn = attn1 + attn2"
TEST_CASE("scores that are the sum of two products have names for both") {
  const auto names = [](const std::string& second) {
    return NamesIn(R"(["/m/q/Neg"] q = Neg (x) ["/m/r/Abs"] r = Abs (x)
        ["/m/Transpose"] kt = Transpose <perm = [0, 2, 1]> (x) ["/m/MatMul"] s = MatMul (q, kt)
        ["/m/MatMul_1"] t = MatMul (r, kt) ["/m/Add"] a = Add (s, )" +
                   second + R"()
        ["/m/Softmax"] p = Softmax (a) ["/m/MatMul_2"] c = MatMul (p, x)
        ["/m/out/Neg"] o = Neg (c) ["/Exp"] y = Exp (o))");
  };
  CHECK(names("t").ends_with("s until /m/out/Neg as attn1; t until /m/out/Neg as attn2; "));
  CHECK(names("s").find("attn2") == std::string::npos);
}

TEST_CASE("an attribute holds the weights of The Annotated Transformer") {
  CHECK(NamesIn(Attends("linears.0", "linears.1", "linears.3"))
            .ends_with("s until /m/out/Neg as scores; p until /m/out/Neg as self.attn; "));
}

TEST_CASE("a layer returns the weights, too, which a loop holds until the next one does") {
  const std::string found = NamesIn(R"(
      ["/m/h.0/a/query_key_value/Neg"] q = Neg (x)
      ["/m/h.0/a/Transpose"] k = Transpose <perm = [0, 2, 1]> (x)
      ["/m/h.0/a/MatMul"] s = MatMul (q, k) ["/m/h.0/a/Softmax"] p = Softmax (s)
      ["/m/h.0/a/MatMul_1"] c = MatMul (p, q) ["/m/h.0/a/dense/Abs"] d = Abs (c)
      ["/m/h.0/Exp"] e = Exp (d) ["/m/h.1/a/Neg"] f = Neg (e) ["/m/h.1/Exp"] g = Exp (f)
      ["/m/Tanh"] y = Tanh (g))");
  CHECK(found.find("p.cast until /m/h.1/Exp as attn; ") != std::string::npos);
}

TEST_CASE("what is cast for a softmax, and back, is cast in its expression") {
  const std::string found = NamesIn(R"(["/m/query/Neg"] q = Neg (x) ["/m/key/Abs"] a = Abs (x)
      ["/m/value/Tanh"] v = Tanh (x) ["/m/Transpose"] k = Transpose <perm = [0, 2, 1]> (a)
      ["/m/MatMul"] s = MatMul (q, k) ["/m/Cast"] t = Cast <to = 11> (s)
      ["/m/Softmax"] p = Softmax (t) ["/m/Cast_1"] w = Cast <to = 1> (p)
      ["/m/MatMul_1"] y = MatMul (w, v))");
  CHECK(found.find("w until /m/MatMul_1 as attn; s until /m/MatMul_1 as scores; ") !=
        std::string::npos);
}

TEST_CASE("k that is scaled behind its transpose is scaled in the expression") {
  const auto names = [](const std::string& scaled) {
    return NamesIn(R"(two = Constant <value = float {2.0}> () ["/m/q/Neg"] q = Neg (x) )" + scaled +
                   R"(["/m/MatMul"] s = MatMul (q, d) ["/m/Softmax"] p = Softmax (s)
                      ["/m/MatMul_1"] y = MatMul (p, x))");
  };
  CHECK(names(R"(["/m/k/Abs"] a = Abs (x) ["/m/Transpose"] k = Transpose <perm = [0, 2, 1]> (a)
                 ["/m/Div"] d = Div (k, two) )")
            .find("k until /m/MatMul_1 as k; ") != std::string::npos);
  CHECK(names(R"(["/m/Div"] b = Div (x, two)
                 ["/m/Transpose"] d = Transpose <perm = [0, 2, 1]> (b) )")
            .find("d until /m/MatMul_1 as k; ") != std::string::npos);
}

TEST_CASE("q that is read again behind the product has not lost its name to a scaled one") {
  const auto found = [](const std::string& again) {
    return NamesIn(R"(two = Constant <value = float {2.0}> ()
      ["/m/q/Neg"] q = Neg (x) ["/m/k/Abs"] k = Abs (x) ["/m/v/Tanh"] v = Tanh (x)
      ["/m/Mul"] t = Mul (q, two) ["/m/Transpose"] kt = Transpose <perm = [0, 2, 1]> (k)
      ["/m/MatMul"] s = MatMul (t, kt) ["/m/ReduceSum"] r = ReduceSum <keepdims = 1> ()" +
                   again + R"() ["/m/Sub"] b = Sub (s, r)
      ["/m/Softmax"] p = Softmax (b) ["/m/MatMul_1"] c = MatMul (p, v)
      ["/m/out/Neg"] o = Neg (c) ["/Exp"] y = Exp (o))");
  };
  CHECK(found("q").starts_with("q until /m/out/Neg as q; "));
  CHECK(found("t").starts_with("t until /m/out/Neg as q; "));
}

TEST_CASE("what a product normalizes is normalized in its expression") {
  const std::string found = NamesIn(R"(tiny = Constant <value = float {0.000001}> ()
      size = Shape (x) axes = Constant <value = int64[1] {-1}> () ["/m/q/Neg"] q = Neg (x)
      ["/m/ReduceL2"] l = ReduceL2 (q, axes) ["/m/Clip"] c = Clip (l, tiny)
      ["/m/Expand"] e = Expand (c, size) ["/m/Div"] n = Div (q, e)
      ["/m/Transpose"] k = Transpose <perm = [0, 2, 1]> (x) ["/m/MatMul"] s = MatMul (n, k)
      ["/m/Softmax"] p = Softmax (s) ["/m/MatMul_1"] y = MatMul (p, x))");
  CHECK(found.find("q until /m/MatMul_1 as q; ") != std::string::npos);
  CHECK(found.find("n until") == std::string::npos);
}

// "torch.matmul(x, self.selectors.softmax(dim=0))"
TEST_CASE("the softmax of a parameter is no attention") {
  CHECK(NamesIn(R"(["/m/Softmax"] p = Softmax (weight) ["/m/MatMul"] s = MatMul (x, p)
                   ["/m/out/Neg"] y = Neg (s))")
            .empty());
}

// "B, T, C = x.shape"
TEST_CASE("what attends in the outermost forward is a method where it asks for sizes") {
  const auto names = [](const std::string& asked) {
    return NamesIn("x2 = Exp (x) [\"/Shape\"] size = Shape (" + asked + R"()
                   ["/q/Neg"] q = Neg (x) ["/Transpose"] k = Transpose <perm = [0, 2, 1]> (x)
                   ["/MatMul"] s = MatMul (q, k) ["/Softmax"] p = Softmax (s)
                   ["/MatMul_1"] c = MatMul (p, q) ["/Abs"] a = Abs (c)
                   ["/Reshape"] r = Reshape (a, size) ["/out/Neg"] o = Neg (r)
                   ["/ff/Tanh"] y = Tanh (o))");
  };
  CHECK(names("x") ==
        "q until /out/Neg as q; k until /out/Neg as k; q until /out/Neg as v; "
        "p until /out/Neg as attn; ");
  CHECK(names("x2").find("p until /ff/Tanh as attn; ") != std::string::npos);
}

TEST_CASE("a method attends in a forward that adds to what it was and runs other layers") {
  const auto names = [](const std::string& sum, const std::string& layer) {
    return NamesIn(R"(["/m/n/Neg"] n = Neg (x) ["/m/q/Abs"] q = Abs (n)
                      ["/m/Transpose"] k = Transpose <perm = [0, 2, 1]> (x)
                      ["/m/MatMul"] s = MatMul (q, k) ["/m/Softmax"] p = Softmax (s)
                      ["/m/MatMul_1"] c = MatMul (p, q) ["/m/out/Neg"] o = Neg (c)
                      ["/m/Add"] a = Add ()" +
                   sum + R"() ["/m/ff/MatMul"] b = )" + layer + R"( ["/m/Abs"] y = Abs (b))");
  };
  const std::string method =
      "q until /m/out/Neg as q; k until /m/out/Neg as k; q until /m/out/Neg as v; "
      "p until /m/out/Neg as attn; n until /m/out/Neg as x; ";
  CHECK(names("x, o", "MatMul (a, weight)") == method);
  CHECK(names("o, x", "MatMul (a, weight)").find("p until /m/Abs as attn") != std::string::npos);
  CHECK(names("x, o", "Tanh (a)").find("p until /m/Abs as attn") != std::string::npos);
}

TEST_CASE("what einsum multiplies has the names, not its own views of it") {
  CHECK(NamesIn(R"(["/m/q/Neg"] q = Neg (x) ["/m/k/Abs"] k = Abs (x) ["/m/v/Tanh"] v = Tanh (x)
                   ["/m/Einsum"] s = Einsum <equation = "bik,bjk->bij"> (q, k)
                   ["/m/Softmax"] p = Softmax (s)
                   ["/m/Einsum_1"] c = Einsum <equation = "bij,bjk->bik"> (p, v)
                   ["/m/out/Neg"] o = Neg (c) ["/Exp"] y = Exp (o))") ==
        "q until /m/out/Neg as q; k until /m/out/Neg as k; v until /m/out/Neg as v; "
        "p until /m/out/Neg as attn; ");
}

TEST_CASE("a second attention of a forward takes the names of the first") {
  CHECK(NamesIn(R"(["/m/Transpose"] t = Transpose <perm = [0, 2, 1]> (x)
                   ["/m/MatMul"] s = MatMul (x, t) ["/m/Softmax"] p = Softmax (s)
                   ["/m/MatMul_1"] a = MatMul (p, x) ["/m/Neg"] n = Neg (a)
                   ["/m/MatMul_2"] r = MatMul (n, t) ["/m/Softmax_1"] w = Softmax (r)
                   ["/m/MatMul_3"] b = MatMul (w, a) ["/Exp"] y = Exp (b))") ==
        "t until /m/MatMul_3 as k; p until /m/Softmax_1 as attn; n until /m/MatMul_3 as q; t until "
        "/m/MatMul_3 as k; "
        "a until /m/MatMul_3 as v; w until /m/MatMul_3 as attn; ");
}

TEST_CASE("what softmax casts has its name until the weights have it") {
  const auto names = [](const std::string& query) {
    return NamesIn("[\"/m/" + query + R"(/Neg"] q = Neg (x)
                   ["/m/key/Transpose"] t = Transpose <perm = [0, 2, 1]> (x)
                   ["/m/value/Abs"] v = Abs (x)
                   ["/m/MatMul"] s = MatMul (q, t) ["/m/Softmax"] p = Softmax (s)
                   ["/m/Cast"] a = Cast <to = 1> (p) ["/m/Cast_1"] b = Cast <to = 1> (a)
                   ["/m/MatMul_1"] c = MatMul (b, v) ["/Exp"] y = Exp (c))",
                   Precision::kAmpBf16);
  };
  const std::string found = names("q");
  CHECK_MESSAGE(found.find("s until /m/Softmax as attn; ") == 0, found);
  CHECK(found.find("p.cast until /m/MatMul_1 as attn; ") != std::string::npos);
  CHECK(found.find("p until") == std::string::npos);
  CHECK(names("query").find("s until /m/MatMul_1 as scores; ") != std::string::npos);
}

TEST_CASE("a softmax that is the first call casts nothing") {
  CHECK(NamesIn(R"(["/m/Softmax"] p = Softmax (x) ["/m/MatMul"] y = MatMul (p, weight))") ==
        "p until /m/MatMul as attn; ");
}

TEST_CASE("softmax that no product reads is none") {
  CHECK(NamesIn(R"(["/m/a/Neg"] a = Neg (x) ["/m/Softmax"] p = Softmax (a)
                   ["/m/Abs"] y = Abs (p))")
            .empty());
}

}  // namespace
}  // namespace onnxfit::attention_names_test

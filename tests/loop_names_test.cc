#include "estimator/locals/loop_names.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/known_names.h"

namespace onnxfit::loop_names_test {
namespace {

// "a b ": what is held until the forward's end by the name `name`.
std::string Held(const std::string& name, const std::string& body) {
  std::string found;
  for (const HeldName& held : HeldNames("net (float[2, 8] x) => (float[2, 24] y) { " + body + "}"))
    if (held.name == name)
      found += held.value + (held.until_last ? " " : " until " + held.until + " ");
  return found;
}

// Three layers of a list, one behind the other.
const std::string kStages = R"(["/s.0/Neg"] a = Neg (x) ["/s.1/Abs"] b = Abs (a)
                               ["/s.2/Tanh"] c = Tanh (b) )";

}  // namespace

// "torch.cat([self.head(x) for x in xs[::-1]], dim=1)"
TEST_CASE("a list of which each is mapped on its own holds all of them") {
  const auto held = [](const std::string& second) {
    return Held("what a list holds", kStages + R"(["/head/Exp"] d = Exp (c) ["/head_1/Exp"] e = )" +
                                         second + R"( ["/head_2/Exp"] f = Exp (a)
                                         ["/Concat"] y = Concat <axis = 1> (d, e, f) )");
  };
  CHECK(held("Exp (b)") == "a b c ");
  CHECK(held("Mul (d, b)").empty());  // of a loop that may take each out of it
}

// "torch.stack([layer(x) for layer in self.s], dim=1)"
TEST_CASE("views of what layers make show no list") {
  CHECK(Held("what a list holds", R"(size = Constant <value = int64[2] {2, 8}> ()
      ["/s.0/Neg"] a = Neg (x) ["/s.1/Abs"] b = Abs (x) ["/s.2/Tanh"] c = Tanh (x)
      ["/Reshape"] d = Reshape (a, size) ["/Reshape_1"] e = Reshape (b, size)
      ["/Reshape_2"] f = Reshape (c, size) ["/Concat"] y = Concat <axis = 1> (d, e, f) )")
            .empty());
}

// "a, b = self.pyramid(x), self.pyramid(y)"
TEST_CASE("what a list makes of two is held, where what it makes of one may be taken out") {
  const auto held = [](const std::string& last) {
    return Held("what a list holds", kStages + R"(z = Exp (x) ["/s.0_1/Neg"] d = Neg (z)
        ["/s.1_1/Abs"] e = Abs (d) ["/)" +
                                         last + R"(/Tanh"] f = Tanh (e) ["/Mul"] g = Mul (c, f)
        ["/Mul_1"] h = Mul (b, e) ["/Mul_2"] i = Mul (a, d)
        ["/Concat"] y = Concat <axis = 1> (g, h, i) )");
  };
  CHECK(held("s.2_1") == "a b c d e f ");
  CHECK(held("t").empty());
}

// "k, v = self.kv(x).chunk(2, dim=-1); q, k, v = map(split_heads, (q, k, v))"
TEST_CASE("what is mapped of parts takes their names, where they have them") {
  const auto held = [](const std::string& q) {
    return Held("parts", R"(size = Constant <value = int64[2] {4, 4}> ()
      back = Constant <value = int64[2] {2, 8}> () ["/q/Neg"] q = Neg (x)
      ["/kv/Concat"] kv = Concat <axis = 1> (x, x) ["/Split"] k, v = Split <axis = 1> (kv)
      ["/Reshape"] a = Reshape ()" +
                             q + R"(, size) ["/Reshape_1"] b = Reshape (k, size)
      ["/Reshape_2"] c = Reshape (v, size) ["/Mul"] d = Mul (a, b) ["/Mul_1"] e = Mul (d, c)
      ["/Reshape_3"] f = Reshape (e, back) ["/out/Concat"] y = Concat <axis = 1> (f, f, f) )");
  };
  CHECK(held("q") == "k until /Reshape_2 v until /Reshape_2 ");
  CHECK(held("x") == "k v ");
}

}  // namespace onnxfit::loop_names_test

#include "estimator/locals/turn_names.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/known_names.h"

namespace onnxfit::turn_names_test {
namespace {

// What turns bind: two turns of "q = exp(layers[i](x)); x = tanh(mean(q) * reshape(q))", from "q0"
// on, where a layer may ask for sizes.
std::string Bound(const std::string& asked, const std::string& last = "Reshape (q0, size)") {
  std::string found;
  const std::string net = R"(net (float[2, 8] x) => (float[8, 2] y) {
      z = Sin (x) size = Constant <value = int64[2] {8, 2}> () back = )" +
                          asked + R"( ["/layers.0/Neg"] a = Neg (x) ["/Exp"] q0 = Exp (a)
      ["/ReduceSum"] m = ReduceSum <keepdims = 1> (q0) ["/Reshape"] r = )" +
                          last + R"( ["/Mul"] p = Mul (m, r) ["/Reshape_1"] b = Reshape (p, back)
      ["/layers.1/Neg"] c = Neg (b) ["/Exp_1"] q1 = Exp (c)
      ["/ReduceSum_1"] n = ReduceSum <keepdims = 1> (q1) ["/Reshape_2"] s = Reshape (q1, size)
      ["/Mul_1"] o = Mul (n, s) ["/Reshape_3"] t = Reshape (o, size) ["/Tanh"] y = Tanh (t) })";
  for (const HeldName& held : HeldNames(net)) {
    if (held.name == "what a turn binds") found += held.value + " until " + held.until + "; ";
  }
  return found;
}

}  // namespace

TEST_CASE("what a turn of the outermost forward reads twice has a name until the next one") {
  CHECK(Bound("Shape (z)") == "q0 until /Exp_1; q1 until /Tanh; ");
}

TEST_CASE("a method's names are gone, and what is not read twice may have none") {
  CHECK(Bound("Shape (x)").empty());
  CHECK(Bound("Constant <value = int64[2] {2, 8}> ()").empty());  // of a file of fixed sizes
  CHECK(Bound("Shape (z)", "Reshape (a, size)") == "q1 until /Tanh; ");
}

}  // namespace onnxfit::turn_names_test

#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::shared_calls_test {
namespace {

std::string Lowered(const std::string& body) {
  return ToString(Build("n (float[2, 3] x) => (float[2, 3] y) { zero = Constant <value = float {0}>"
                        " () [\"/m/Relu\"] r = Relu (x) " +
                            body + " }",
                        {.mode = Mode::kEval})
                      .program);
}

TEST_CASE("a mask that two layers share is made by each of them") {
  const std::string first =
      R"(["/m/l.0/Greater"] g = Greater (r, zero) ["/m/l.0/Not"] n = Not (g)
         ["/m/l.0/Where"] a = Where (n, zero, r) )";
  CHECK(Lowered(first + R"(["/m/l.1/Where"] b = Where (n, zero, a)
                           ["/m/l.1/Where_1"] y = Where (n, zero, b))")
            .ends_with("%a = masked_fill(%r, %n)  # /m/l.0/Where\n"
                       "%g = gt(%r)  # /m/l.1/Where\n"
                       "%n = logical_not(%g)  # /m/l.1/Where\n"
                       "%b = masked_fill(%a, %n)  # /m/l.1/Where\n"
                       "%y = masked_fill(%b, %n)  # /m/l.1/Where_1\n"));
  // Of an encoder's layers and a decoder's.
  CHECK(Lowered(R"(["/enc.0/l.0/Greater"] g = Greater (r, zero) ["/enc.0/l.0/Not"] n = Not (g)
                   ["/enc.0/l.0/Where"] a = Where (n, zero, r)
                   ["/dec.0/l.1/Where"] y = Where (n, zero, a))")
            .ends_with("%g = gt(%r)  # /dec.0/l.1/Where\n"
                       "%n = logical_not(%g)  # /dec.0/l.1/Where\n"
                       "%y = masked_fill(%a, %n)  # /dec.0/l.1/Where\n"));
  CHECK(Lowered(first + R"(["/m/head/Where"] y = Where (n, zero, a))")
            .ends_with("# /m/l.0/Where\n%y = masked_fill(%a, %n)  # /m/head/Where\n"));
}

TEST_CASE("an activation of what several blocks are passed is made by each of them") {
  const auto modules = [](const std::string& reader, const std::string& passed) {
    const Program program = Build(R"(n (float[2, 3] x) => (float[2, 3] y) { ["/m/Relu"] r = Relu (x)
        ["/up/t/t.2/Abs"] o = Abs (r) ["/up/t/t.0/Sigmoid"] s = Sigmoid ()" +
                                      passed + R"()
        ["/up/t/t.1/Neg"] a = Neg (s) ["/Add"] b = Add (a, o) [")" +
                                      reader + R"("] c = Neg (s) ["/mid/t/t.1/Neg"] d = Neg (s)
        ["/Add_1"] e = Add (b, c) ["/Add_2"] y = Add (e, d) })",
                                  {.mode = Mode::kEval})
                                .program;
    std::string text;
    for (const AtenCall& call : program.calls) {
      if (call.op == "sigmoid") text += program.modules.PathOf(call.module) + " ";
    }
    return text;
  };
  CHECK(modules("/down/t/t.1/Neg", "r") == "up.t.0 down.t.0 mid.t.0 ");
  CHECK(modules("/head/Neg", "r") == "up.t.0 ");  // a chain, each of which reads the one before
  CHECK(modules("/down/t/t.1/Neg", "o") == "up.t.0 ");  // which nobody passed
}

TEST_CASE("a function that was scripted runs in the module that calls it") {
  const PreparedRun built = Build(R"(n (float[2, 3] x) => (float[2, 3] y) {
      ["/m/e/Relu"] r = Relu (x) [Abs_7] a = Abs (r) ["/m/e/Neg"] n = Neg (a)
      ["/m/f/Neg"] y = Neg (n) })",
                                  {.mode = Mode::kEval});
  CHECK(built.program.modules.NamesOf(built.program.calls[1].module) ==
        std::vector<std::string>{"m", "e"});
}

}  // namespace
}  // namespace onnxfit::shared_calls_test

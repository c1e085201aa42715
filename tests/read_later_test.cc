#include "estimator/locals/read_later.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/known_names.h"

namespace onnxfit::read_later_test {
namespace {

// "f until /Concat": which value is held until which call has returned, as it is read later.
std::string ReadLater(const std::string& body, const char* x = "float[2, 3, 8] x") {
  std::string found;
  for (const HeldName& held : HeldNames("net (" + std::string(x) + R"() => (float[2, 24] y)
             < float[9, 8] table = ["location": "none"], int64[2] flat = {2, 24} > { )" +
                                        body + " }")) {
    if (held.name == "what is read later") found += held.value + " until " + held.until + "; ";
  }
  return found;
}

}  // namespace

// "flat = self.encoder(x).flatten(1)"
TEST_CASE("a view of what a module with modules of its own returns is held as that is") {
  const std::string behind = R"(["/Reshape"] f = Reshape (a, flat) ["/norm/Neg"] n = Neg (f)
                                ["/Concat"] c = Concat <axis = 0> (f, n) ["/out/Abs"] y = Abs (c))";
  CHECK(ReadLater(R"(["/encoder/layer/Abs"] a = Abs (x) )" + behind) == "f until /out/Abs; ");
  CHECK(ReadLater(R"(["/conv/Abs"] a = Abs (x) )" + behind).empty());
}

// "torch.cat([self.users(ids), self.items(ids)], dim=1)"
TEST_CASE("the outermost forward may embed and join in one line") {
  const auto known = [](const std::string& module, const std::string& last) {
    return ReadLater("[\"" + module + R"(users/Gather"] u = Gather (table, x)
                     [")" +
                         module + R"(items/Gather"] i = Gather (table, x)
                     [")" +
                         module + last + R"("] c = Concat <axis = 1> (u, i)
                     ["/out/Abs"] y = Abs (c))",
                     "int64[2, 3] x");
  };
  CHECK(known("/", "Concat").empty());
  CHECK(known("/", "f/Concat") == "u until /out/Abs; ");
}

// "for layer in self.layers: h = layer(x); x = torch.cat([x, h], dim=1)"
TEST_CASE("a loop binds anew what each of its layers reads") {
  const auto known = [](const std::string& second) {
    return ReadLater(R"(["/bn/Abs"] a = Abs (x) ["/layers.0/Neg"] b = Neg (a)
                     ["/Concat"] c = Concat <axis = 1> (a, b) ["/)" +
                     second + R"(/Exp"] d = Exp (c) ["/Concat_1"] y = Concat <axis = 1> (c, d))");
  };
  CHECK(known("layers.1").empty());
  CHECK(known("last") == "a until /Concat_1; ");
}

}  // namespace onnxfit::read_later_test

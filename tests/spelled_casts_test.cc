#include "estimator/program/spelled_casts.h"

#include <doctest/doctest.h>

#include <string>

#include "estimator/program/identifiers.h"

namespace onnxfit::spelled_casts_test {
namespace {

// "x.to: y.dtype", a line each.
std::string TextOf(std::string_view line) {
  std::string text;
  for (const SpelledCast& cast : SpelledCastsOf(line))
    text += cast.receiver + "." + cast.method + ": " + cast.type + "\n";
  return text;
}

TEST_CASE("a line spells its casts from left to right") {
  CHECK(TextOf("x = x.float()") == "x.float: torch.float32\n");
  CHECK(TextOf("return out.to(in_dtype)") == "out.to: in_dtype\n");
  CHECK(TextOf("y = self._norm(x.float()).type_as(x)") == "x.float: torch.float32\n.type_as: x\n");
  CHECK(TextOf("return (y * self.w.to(y.dtype)).to(dtype=x.dtype)") ==
        "self.w.to: y.dtype\n.to: x.dtype\n");
  CHECK(TextOf("h = f(a.to(device, b.dtype), c[0].half())") ==
        "a.to: b.dtype\n.half: torch.float16\n");
  CHECK(TextOf("x = x.type(torch.float32)") == "x.type: torch.float32\n");
  CHECK(TextOf("x = x.to(") == "");  // goes on below
}

TEST_CASE("what is moved, or asked for its type, is not cast") {
  CHECK(TextOf("x = x.to(device)") == "");
  CHECK(TextOf("x = x.to(device=y.device)") == "");
  CHECK(TextOf("x = x.to('cuda')") == "");
  CHECK(TextOf("print(x.type())") == "");
  CHECK(TextOf("x = self.to_float(x)") == "");
}

TEST_CASE("a type is a tensor's or a variable's") {
  CHECK(TypedTensor("y.dtype") == "y");
  CHECK(TypedTensor("torch.float32") == "");
  CHECK(IsIdentifier("in_dtype"));
  CHECK_FALSE(IsIdentifier("torch.float32"));
  CHECK_FALSE(IsIdentifier(""));
}

TEST_CASE("a word is neither a part of another nor an attribute") {
  const std::string line = "x.y = max(y.T, self.y, my, yy, y)";
  CHECK(FindWord(line, "y") == line.find("y.T"));
  CHECK(FindWord(line, "y", line.find("y.T") + 1) == line.rfind('y'));
  CHECK(FindWord(line, "x") == 0);
  CHECK(FindWord(line, "m") == line.npos);
  CHECK(FindWord(line, "y", line.npos) == line.npos);
}

}  // namespace
}  // namespace onnxfit::spelled_casts_test

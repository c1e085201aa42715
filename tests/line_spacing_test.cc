#include "estimator/program/line_spacing.h"

#include <doctest/doctest.h>

namespace onnxfit::line_spacing_test {
namespace {

TEST_CASE("what a line assigns by has blanks around it") {
  CHECK(WithSpacing("x=f(y, dim=1)") == "x = f(y, dim=1)");
  CHECK(WithSpacing("x= y") == "x = y");
  CHECK(WithSpacing("a=b=f(x)") == "a = b = f(x)");
  CHECK(WithSpacing("q, k=f(x)[0], g('a=b')") == "q, k = f(x)[0], g('a=b')");
  CHECK(WithSpacing("x+=y*z") == "x += y*z");
  CHECK(WithSpacing("x//=2") == "x //= 2");
  CHECK(WithSpacing("h[i]=x") == "h[i] = x");
}

TEST_CASE("a line that has them, or assigns nothing, stays") {
  for (const char* line : {"x = f(y, dim=1)", "x += y", "return f(x, dim=1)",
                           "if a==b and a<=c:", "if (y:=f(x)):", "", "x"}) {
    CAPTURE(line);
    CHECK(WithSpacing(line).empty());
  }
}

TEST_CASE("what goes on from a line before is none that assigns") {
  CHECK(WithSpacing("dim=1)").empty());
  CHECK(WithSpacing("dim=1,").empty());
  CHECK(WithSpacing("x), dim=1)").empty());
}

}  // namespace
}  // namespace onnxfit::line_spacing_test

#include "estimator/program/source_text.h"

#include <doctest/doctest.h>

#include <string>

namespace onnxfit {
namespace {

TEST_CASE("whether a line of source writes over an operand") {
  struct Row {
    const char* trace;
    const char* line;
    std::optional<bool> in_place;
  };
  const Row rows[] = {
      {"", "", std::nullopt},
      {"File \"a.py\", line 3, in forward\n    out += identity", "out += identity", true},
      {"File \"a.py\", line 3, in forward\n    x = x.add_(y)\n", "x = x.add_(y)", true},
      {"File \"a.py\", line 3, in forward\n    return self.f(x) + x", "return self.f(x) + x",
       false},
      {"  File \"a.py\", line 3, in forward\n    x += f(x)\n  File \"b.py\", line 9, in forward\n"
       "    return a + b\n",
       "return a + b", false},
      {"File \"a.py\", line 3, in forward", "", std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.trace);
    Node node;
    node.metadata = {{"pkg.torch.onnx.stack_trace", row.trace}};
    CHECK(SourceLine(node) == row.line);
    CHECK((WrittenInPlace(node) == row.in_place));
  }
}

}  // namespace
}  // namespace onnxfit

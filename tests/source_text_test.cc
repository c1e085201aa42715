#include "estimator/recover/source_text.h"

#include <doctest/doctest.h>

#include <string>

namespace onnxfit::source_text_test {
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
      {"File \"a.py\", line 3, in forward\n  x = F.relu(x)", "x = F.relu(x)", false},
      {"File \"a.py\", line 3, in forward\n  x = F.relu_(x)", "x = F.relu_(x)", true},
      {"File \"a.py\", line 3, in forward\n  x = F.relu(x, True)", "x = F.relu(x, True)",
       std::nullopt},
      {"File \"a.py\", line 3, in forward\n  x = F.relu(x, inplace=True)",
       "x = F.relu(x, inplace=True)", true},
      {"File \"a.py\", line 3, in forward\n  return F.relu(input, inplace=self.inplace)",
       "return F.relu(input, inplace=self.inplace)", std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.trace);
    Node node;
    node.metadata = {{"pkg.torch.onnx.stack_trace", row.trace}};
    const std::vector<SourceFrame> frames = SourceFrames(node);
    const std::string_view line = InnermostLine(frames);
    CHECK(line == row.line);
    CHECK((WrittenInPlace(line) == row.in_place));
  }
}

TEST_CASE("frames with their lines, the innermost last") {
  Node node;
  node.metadata = {{"pkg.torch.onnx.stack_trace",
                    "File \"a.py\", line 3, in forward\n    x = f(x)\n"
                    "File \"b.py\", line 40, in forward\n    y = g(x)\n"
                    "File \"c.py\", line 500, in forward\nFile \"d.py\", line, in f\n  z\n"}};
  const std::vector<SourceFrame> frames = SourceFrames(node);
  REQUIRE(frames.size() == 4);
  CHECK(frames[0].line == 3);
  CHECK(frames[0].text == "x = f(x)");
  CHECK(frames[2].line == 500);
  CHECK(frames[2].text.empty());
  CHECK(frames[3].line == 0);
  CHECK(frames[3].text == "z");
}

}  // namespace
}  // namespace onnxfit::source_text_test

#include "estimator/program/source_text.h"

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

TEST_CASE("the name that a line passes to a module") {
  struct Row {
    const char* module;
    const char* line;
    const char* name;
  };
  const Row rows[] = {
      {"layer1.0.bn1", "out = self.bn1(out)", "out"},
      {"features.3", "input = module(input)", "input"},
      {"layer1.0.bn1", "out = self.bn2(out)", ""},
      {"bn1", "out = self.bn1(self.conv1(x))", ""},
      {"bn1", "", ""},
      {"u.0", "for u, r in zip(self.u, self.r): x = r(torch.cat([u(x), s.pop()], 1))", "x"},
      {"blocks.3", "x = block(x)", "x"},
      {"blocks.3", "x = block(x) + scale(y)", ""},
      {"blocks.3", "x = self.block(x, y)", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    CHECK(ArgumentTo(row.module, row.line) == row.name);
  }
}

TEST_CASE("the module or method that a line calls last") {
  CHECK(OutermostOwnCall("y = self.features(x)") == "features");
  CHECK(OutermostOwnCall("return self.head(self.norm(x))") == "head");
  CHECK(OutermostOwnCall("x = F.relu(self.conv(x))").empty());
  CHECK(OutermostOwnCall("x = self.a.b(x)").empty());
  CHECK(OutermostOwnCall("x = self.scale").empty());
  CHECK(OutermostOwnCall("").empty());
}

TEST_CASE("how many modules a line may call") {
  CHECK(CountModuleCalls("x = self.conv(x)") == 1);
  CHECK(CountModuleCalls("for u, r in zip(self.u, self.r): x = r(torch.cat([u(x), s.pop()], 1))") ==
        2);
  CHECK(CountModuleCalls("x = F.relu(self.bn(self.conv(x)))") == 2);
  CHECK(CountModuleCalls("x = x + y") == 0);
}

TEST_CASE("the names that a line of source assigns to") {
  struct Row {
    const char* line;
    std::vector<std::string> names;
  };
  const Row rows[] = {
      {"x = self.conv(x)", {"x"}},
      {"a, b = f(x)", {"a", "b"}},
      {"x += y", {"x"}},
      {"x: Tensor = f(y)", {"x"}},
      {"return x", {}},
      {"return x == y", {}},
      {"self.conv(x, bias=True)", {}},
      {"out[name] = x", {}},
      {"self.state = x", {}},
      {"for u, r in zip(self.u, self.r): x = r(u(x))", {"x"}},
      {"if i < 3: s.append(x); x = pool(x[a:b], ';')", {"x"}},
      {"x = f(x); g(x)", {"x"}},
      {"for f in self.blocks:", {}},
      {"if x: return f(x)", {}},
      {"y = {1: x}[1]", {"y"}},
      {"", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    CHECK(TargetsOf(row.line) == row.names);
  }
}

}  // namespace
}  // namespace onnxfit::source_text_test

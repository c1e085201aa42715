#include "estimator/program/source_statement.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace onnxfit::source_statement_test {
namespace {

TEST_CASE("a line that leaves a call open may pass anything on, one in parentheses what it names") {
  CHECK(ReadStatement(1, "x, y = layer(x,").MayPassOn("y"));
  CHECK_FALSE(ReadStatement(1, "x, y = (t.view(2)").MayPassOn("y"));
  CHECK(ReadStatement(1, "x, y = layer(x, y)").MayPassOn("y"));
  CHECK_FALSE(ReadStatement(1, "x, y = layer(x)").MayPassOn("y"));
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
    CHECK(ReadStatement(1, row.line).ArgumentTo(row.module) == row.name);
  }
}

TEST_CASE("the module or method that a line calls last") {
  CHECK(ReadStatement(1, "y = self.features(x)").own_call == "features");
  CHECK(ReadStatement(1, "return self.head(self.norm(x))").own_call == "head");
  CHECK(ReadStatement(1, "x = F.relu(self.conv(x))").own_call.empty());
  CHECK(ReadStatement(1, "x = self.a.b(x)").own_call.empty());
  CHECK(ReadStatement(1, "x = self.scale").own_call.empty());
  CHECK(ReadStatement(1, "").own_call.empty());
}

TEST_CASE("the method whose result a line adds to a name") {
  CHECK(ReadStatement(1, "x = x + self.attend(layer, norm(x))").added_call == "attend");
  CHECK(ReadStatement(1, "return self.attend(x) + x").added_call == "attend");
  CHECK(ReadStatement(1, "x = x + self.attend(").added_call == "attend");
  CHECK(ReadStatement(1, "x = x + self.attend(x) * 2").added_call.empty());
  CHECK(ReadStatement(1, "x = f(x) + self.attend(x)").added_call.empty());
  CHECK(ReadStatement(1, "x = self.attend(x)").added_call.empty());
}

TEST_CASE("how many modules a line may call") {
  CHECK(ReadStatement(1, "x = self.conv(x)").module_calls == 1);
  CHECK(ReadStatement(1, "for u, r in zip(self.u, self.r): x = r(torch.cat([u(x), s.pop()], 1))")
            .module_calls == 2);
  CHECK(ReadStatement(1, "x = F.relu(self.bn(self.conv(x)))").module_calls == 2);
  CHECK(ReadStatement(1, "x = x + y").module_calls == 0);
}

TEST_CASE("the names that a line of source assigns to") {
  struct Row {
    const char* line;
    std::vector<std::string> names;
  };
  const Row rows[] = {
      {"x = self.conv(x)", {"x"}},
      {"a, b = f(x)", {"a", "b"}},
      {"(a, b) = f(x)", {"a", "b"}},
      {"(a + b).relu()", {}},
      {"x += y", {"x"}},
      {"x: Tensor = f(y)", {"x"}},
      {"return x", {}},
      {"return x == y", {}},
      {"self.conv(x, bias=True)", {}},
      {"out[name] = x", {}},
      {"self.state = x", {"self.state"}},
      {"x, self.attn = f(x)", {"x", "self.attn"}},
      {"for u, r in zip(self.u, self.r): x = r(u(x))", {"x"}},
      {"if i < 3: s.append(x); x = pool(x[a:b], ';')", {"x"}},
      {"x = f(x); g(x)", {"x"}},
      {"for f in self.blocks:", {}},
      {"if x: return f(x)", {}},
      {"y = {1: x}[1]", {"y"}},
      {"\"full\": mask(x, key=1),", {"\"full\""}},
      {"", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.line);
    CHECK(ReadStatement(1, row.line).targets == row.names);
  }
}

TEST_CASE("what a sum's and a view's lines read") {
  using Pair = std::pair<std::string, std::string>;
  CHECK(ReadStatement(1, "x = a + b").operands == Pair("a", "b"));
  CHECK(ReadStatement(1, "return norm(a * b)").operands == Pair("a", "b"));
  CHECK(ReadStatement(1, "x = a + b + c").operands == Pair());
  CHECK(ReadStatement(1, "x = f(a) + b").operands == Pair());
  CHECK(ReadStatement(1, "x = f(a + 1) * 0.5 + b").terms == Pair("", "b"));
  CHECK(ReadStatement(1, "x = a + self.drop(b)").terms == Pair("a", ""));
  CHECK(ReadStatement(1, "x = a + f(b) + c").terms == Pair());
  CHECK(ReadStatement(1, "x = a * self.scale + b * c").scaled_terms == Pair("a", ""));
  CHECK(ReadStatement(1, "x = f(a) * self.scale + b * self.c").scaled_terms == Pair("", "b"));
  CHECK(ReadStatement(1, "q, k = rotate(q, f(k))").function == "rotate");
  CHECK(ReadStatement(1, "q = rotate(q, k).sum()").function.empty());
  CHECK(ReadStatement(1, "q = torch.roll(q)").function.empty());
  CHECK(ReadStatement(1, "y = x.view(shape)").receiver == "x");
  CHECK(ReadStatement(1, "y = torch.cat(xs)").receiver.empty());
  CHECK(ReadStatement(1, "x = layer(x)").callee == "layer");
  CHECK(ReadStatement(1, "x = self.layers[i](x)").callee == "self.layers[i]");
  CHECK(ReadStatement(1, "y = self.layers[i](x, size)").passes == "x");
  CHECK(ReadStatement(1, "return f(x)").passes.empty());
  CHECK(ReadStatement(1, "xs = [f(x) for x in ys]").is_comprehension);
  CHECK_FALSE(ReadStatement(1, "xs = [f(x), y]").is_comprehension);
  CHECK(ReadStatement(1, "return x").returns);
  CHECK(ReadStatement(1, ").view(n)").is_tail);
}

TEST_CASE("a line is read once, and what is put back beside it is another statement") {
  SourceLines source;
  const StatementId line = source.Read(7, "w = softmax(s)");
  CHECK(source.Read(7, "w = softmax(s)") == line);
  CHECK(source.Read(8, "w = softmax(s)") != line);
  const StatementId drop = source.PutBack({.line = 7, .targets = {"w"}});
  const StatementId again = source.PutBack({.line = 7, .targets = {"w"}});
  CHECK(source.AreSame(drop, again));
  CHECK_FALSE(source.AreSame(drop, line));
  CHECK_FALSE(source.AreSame(kNoStatement, line));
}

TEST_CASE("what is put back passes what it is said to pass") {
  SourceLines source;
  const StatementId line = source.PutBack({.own_call = "rotary_emb", .argument = "hidden"});
  CHECK(source.At(line).ArgumentTo("model.rotary_emb") == "hidden");
  CHECK(source.At(line).ArgumentTo("model.norm").empty());
}

}  // namespace
}  // namespace onnxfit::source_statement_test

#include "estimator/program/statements.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "estimator/names/lifetimes.h"
#include "estimator/program/modules.h"
#include "estimator/program/repeated_modules.h"

namespace onnxfit::statements_test {
namespace {

struct Line {
  int64_t number;
  const char* text;
  const char* called;  // a module, "" for a call of the forward's own
};

// A module "m" with one call a line; call i makes name i + 1 from name i, name 0 being given.
Program Forward(const std::vector<Line>& lines) {
  Program program;
  program.values.resize(lines.size() + 1);
  program.inputs = {0};
  for (size_t i = 0; i < lines.size(); ++i) {
    AtenCall call;
    call.inputs = {static_cast<NameId>(i)};
    call.outputs = {static_cast<NameId>(i + 1)};
    call.module = program.modules.Enter({"m"});
    const bool is_known = lines[i].number != 0;
    if (is_known) call.frames = {program.source.Read(lines[i].number, lines[i].text)};
    if (*lines[i].called != '\0') {
      call.module = program.modules.Enter(call.module, lines[i].called);
      if (is_known) call.frames.push_back(program.source.Read(7, "return f(input)"));
    }
    program.calls.push_back(call);
  }
  program.outputs = {static_cast<NameId>(lines.size())};
  return program;
}

// 0: unknown.
int64_t LineOf(const Program& program, const Statement& statement) {
  return statement.source == kNoStatement ? 0 : program.source.At(statement.source).line;
}

// "line:first-last" for every statement of "m".
std::string Statements(const std::vector<Line>& lines) {
  const Program program = Forward(lines);
  const std::vector<ModuleCall> modules = FindModuleCalls(program, ModuleRuns(program));
  REQUIRE(!modules.empty());
  std::string text;
  for (const Statement& statement : modules[0].statements) {
    text += std::to_string(LineOf(program, statement)) + ":" + std::to_string(statement.first) +
            "-" + std::to_string(statement.last) + " ";
  }
  return text;
}

// Calls of one layer with two lines, `caller` being how the model calls it.
std::string Scopes(const char* caller, const std::vector<int64_t>& lines) {
  Program program;
  SourceLines& source = program.source;
  for (const int64_t line : lines) {
    AtenCall call;
    call.module =
        program.modules.Enter({"", "m", "m.layers.0", line == 7 ? "m.layers.0.a" : "m.layers.0.b"});
    call.frames = {source.Read(1, "return self.m(x)"), source.Read(3, caller),
                   source.Read(line, "x = self.a(x)"), source.Read(9, "return x")};
    program.calls.push_back(call);
  }
  MarkRepeatedModules(program);
  std::string text;
  for (const AtenCall& call : program.calls) {
    text +=
        program.modules.NameAt(call.module, 1) + "/" + program.modules.NameAt(call.module, 2) + " ";
  }
  return text;
}

TEST_CASE("a line that goes on below is one statement with its end") {
  CHECK(Statements({{1, "x = f(", ""}, {3, ").view(n)", ""}, {4, "y = g(x)", ""}}) ==
        "1:0-1 4:2-2 ");
  CHECK(Statements({{1, "x = f(x)", ""}, {3, ").view(n)", ""}}) == "1:0-0 3:1-1 ");
}

TEST_CASE("a module whose forward begins again is called again") {
  CHECK(Scopes("x = self.layers[i](x)", {7, 8, 7, 8, 7}) ==
        "m/m.layers.0 m/m.layers.0 m/m.layers.0@1 m/m.layers.0@1 m/m.layers.0@2 ");
  CHECK(Scopes("x = layer(x)", {7, 8, 7}) == "m/m.layers.0 m/m.layers.0 m@1/m.layers.0 ");
  CHECK(Scopes("x = self.layers[i](x)", {7, 7, 8}) == "m/m.layers.0 m/m.layers.0 m/m.layers.0 ");
  CHECK(Scopes("x = self.layers[i](x)", {8, 7, 8}) == "m/m.layers.0 m/m.layers.0 m/m.layers.0 ");
}

TEST_CASE("super().forward is a frame more") {
  Program program = Forward({{1, "x = self.e(x)", "m.e"}, {2, "return f(x)", ""}});
  program.calls[0].frames.push_back(program.source.Read(3, "return F.embedding(x)"));
  const std::vector<ModuleCall> modules = FindModuleCalls(program, ModuleRuns(program));
  CHECK(LineOf(program, modules[0].statements[0]) == 1);
}

TEST_CASE("calls of one line are one statement, turns of a loop are not") {
  struct Row {
    const char* name;
    std::vector<Line> lines;
    const char* statements;
  };
  const Row rows[] = {
      {"one line each", {{1, "x = a(x)", "m.a"}, {2, "return b(x)", "m.b"}}, "1:0-0 2:1-1 "},
      {"two modules on a line", {{1, "x = b(a(x))", "m.a"}, {1, "x = b(a(x))", "m.b"}}, "1:0-1 "},
      {"one module twice", {{1, "x = a(x)", "m.a"}, {1, "x = a(x)", "m.a"}}, "1:0-1 "},
      {"a method, whatever it calls",
       {{1, "x = self.f(x)", "m.l.0"}, {1, "x = self.f(x)", "m.l.1"}, {2, "return g(x)", ""}},
       "1:0-1 2:2-2 "},
      {"children of a list", {{1, "x = b(x)", "m.l.0"}, {1, "x = b(x)", "m.l.1"}}, "1:0-0 1:1-1 "},
      {"pairs of a list",
       {{1, "x = b(a(x))", "m.l.0"}, {1, "x = b(a(x))", "m.l.1"}, {1, "x = b(a(x))", "m.l.1"}},
       "1:0-2 "},
      {"children of a list that make other calls",
       {{1, "x = b(x)", "m.l.0"}, {1, "x = b(x)", "m.l.1"}, {1, "x = b(x)", "m.l.1"}},
       "1:0-0 1:1-2 "},
      {"unknown lines", {{0, "", "m.a"}, {0, "", "m.b"}}, "0:0-0 0:1-1 "},
      {"the rest of a line is unknown",
       {{1, "x = r(f(u(x)))", "m.u"}, {0, "", "m.r"}, {2, "x = self.a(x)", "m.a"}},
       "1:0-1 2:2-2 "},
      {"a complete line before an unknown one",
       {{1, "x = u(x)", "m.u"}, {0, "", "m.r"}, {2, "x = self.a(x)", "m.a"}},
       "1:0-0 0:1-1 2:2-2 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Statements(row.lines) == row.statements);
  }
}

TEST_CASE("all frames show the lines of every forward, fewer those of the innermost two") {
  Program program;
  AtenCall call;
  call.module = program.modules.Enter({"", "blocks", "blocks.0", "blocks.0.conv"});
  const std::vector<StatementId> all = {
      program.source.Read(4, "x = self.blocks(x)"), program.source.Read(3, "x = m(x)"),
      program.source.Read(2, "x = self.conv(x)"), program.source.Read(1, "return f(x)")};
  for (const size_t count : {size_t{4}, size_t{3}, size_t{2}}) {
    CAPTURE(count);
    call.frames.assign(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
    program.calls = {call};
    std::string lines;
    for (const ModuleCall& module : FindModuleCalls(program, ModuleRuns(program))) {
      lines += std::to_string(LineOf(program, module.statements[0])) + " ";
    }
    CHECK(lines == (count == 4 ? "4 3 2 1 " : "0 0 2 1 "));
  }
}

// The call after which name 1, which call 0 makes and call 1 reads, is dropped.
int64_t DeathOfFirst(const std::vector<Line>& lines) {
  Program program = Forward(lines);
  PlaceDeaths(program, {.mode = Mode::kEval});
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (const NameId name : program.calls[i].dies) {
      if (name == 1) return static_cast<int64_t>(i);
    }
  }
  return -1;
}

TEST_CASE("what a statement binds lives until its name is bound again") {
  struct Row {
    const char* name;
    std::vector<Line> lines;
    int64_t death;
  };
  const Row rows[] = {
      {"bound again by the next",
       {{1, "x = f(x)", ""}, {2, "x = g(x)", ""}, {3, "x = h(x)", ""}, {4, "return k(x)", ""}},
       1},
      {"another name: until the forward returns",
       {{1, "y = f(x)", ""}, {2, "x = g(y)", ""}, {3, "x = h(x)", ""}, {4, "return k(x)", ""}},
       3},
      {"bound to no name",
       {{1, "f(x)", ""}, {2, "x = g(y)", ""}, {3, "x = h(x)", ""}, {4, "return k(x)", ""}},
       1},
      {"a helper of the forward returns",
       {{1, "y = f(x)", ""}, {2, "x = g(y)", ""}, {3, "return h(x)", ""}, {9, "x = k(x)", ""}},
       2},
      {"a call without a line rebinds its operand's name",
       {{1, "y = f(x)", ""}, {2, "x = g(y)", ""}, {0, "", ""}, {4, "return k(x)", ""}},
       3},
      {"torch.export's line, of a graph that it made of a part of the forward",
       {{1, "h = torch.ops.aten.f.default(x)", ""},
        {2, "x = g(y)", ""},
        {3, "x = h(x)", ""},
        {4, "return k(x)", ""}},
       1},
      {"the same of all of it",
       {{1, "h = torch.ops.aten.f.default(x)", ""},
        {2, "g = torch.ops.aten.g.default(h)", ""},
        {3, "k = torch.ops.aten.k.default(g)", ""}},
       2},
      {"the end of a line that began earlier",
       {{1, ").view(n)", ""}, {2, "x = g(y)", ""}, {3, "x = h(x)", ""}, {4, "return k(x)", ""}},
       3},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(DeathOfFirst(row.lines) == row.death);
  }
}

// What an autograd.Function runs, its own call in front of a module's.
TEST_CASE("a generated graph of more than a forward has no names of that forward's") {
  Program program = Forward({{1, "a = torch.ops.aten.f.default(x)", ""},
                             {2, "h = torch.ops.aten.f.default(a)", "m.layer"},
                             {3, "g = torch.ops.aten.g.default(h)", "m.layer"},
                             {4, "k = torch.ops.aten.k.default(g)", "m.layer"}});
  for (AtenCall& call : program.calls) call.frames.resize(1);
  std::string bound;
  for (const ModuleCall& module : FindModuleCalls(program, ModuleRuns(program))) {
    for (const Statement& statement : module.statements) {
      bound += statement.targets.empty() ? "" : statement.targets[0] + " ";
    }
    bound += "; ";
  }
  CHECK(bound == "a ; ; ");
}

// After which call `name` is dropped.
size_t DeathOf(Program program, NameId name) {
  PlaceDeaths(program, {.mode = Mode::kEval});
  for (size_t i = 0; i < program.calls.size(); ++i) {
    if (std::ranges::count(program.calls[i].dies, name) != 0) return i;
  }
  return program.calls.size();
}

// Every call's outermost line reads `text`.
void Reread(Program& program, const char* text) {
  for (AtenCall& call : program.calls) {
    call.frames[0] = program.source.Read(program.source.At(call.frames[0]).line, text);
  }
}

// residual = h; h = g(h), where the first line makes no call.
TEST_CASE("a name that a sum reads holds what it read") {
  Program program = Forward({{1, "h = f(x)", ""},
                             {2, "h = g(h)", ""},
                             {3, "h = h + residual", ""},
                             {4, "h = k(h)", ""},
                             {5, "return k(h)", ""}});
  program.calls[2].inputs = {2, 1};
  CHECK(DeathOf(program, 1) == 4);
  program.calls[2].frames[0] = program.source.Read(3, "h = h + f(residual)");
  CHECK(DeathOf(program, 1) == 2);
}

// x, bias = b(x, bias), where the first turn makes the bias.
TEST_CASE("what a loop passes on lives as long as the forward") {
  Program program = Forward({{1, "x, bias = b(x, bias)", "m.l.0"},
                             {1, "x, bias = b(x, bias)", "m.l.0"},
                             {1, "x, bias = b(x, bias)", "m.l.1"},
                             {2, "x = g(x)", ""},
                             {3, "return k(x)", ""}});
  program.calls[2].inputs = {2, 1};
  CHECK(DeathOf(program, 1) == 4);
  CHECK(DeathOf(program, 2) == 2);
  Reread(program, "x = b(x, bias)");
  CHECK(DeathOf(program, 1) == 2);
}

// outputs = self.b(x) holds what b returns and what it selected that from.
TEST_CASE("outputs are more than one result") {
  Program program = Forward({{1, "outputs = self.b(x)", "m.b"},
                             {1, "outputs = self.b(x)", "m.b"},
                             {1, "outputs = self.b(x)", "m.b"},
                             {2, "y = g(outputs[1])", ""},
                             {3, "return k(y)", ""}});
  program.calls[1].op = "select";
  CHECK(DeathOf(program, 1) == 4);
  program.calls[1].ints = {2};  // no row: inputs_embeds[..., -1]
  CHECK(DeathOf(program, 1) == 1);
  program.calls[1].op = "view";
  CHECK(DeathOf(program, 1) == 1);
}

TEST_CASE("outputs hold what an encoder made for its decoder") {
  Program program = Forward({{1, "outputs = self.b(x)", "m.b"},
                             {1, "outputs = self.b(x)", "m.b"},
                             {1, "outputs = self.b(x)", "m.b"},
                             {2, "y = g(outputs[0])", ""},
                             {3, "return k(y)", ""}});
  const ModuleId b = program.calls[0].module;
  program.calls[0].module = program.modules.Enter(b, "m.b.encoder");
  program.calls[1].module = program.modules.Enter(b, "m.b.decoder");
  CHECK(DeathOf(program, 1) == 4);
  program.calls[0].module = program.modules.Enter(b, "m.b.stem");
  CHECK(DeathOf(program, 1) == 1);
}

TEST_CASE("a helper's names hold what several of its calls read") {
  Program program = Forward({{1, "p = self.count(x)", ""},
                             {1, "p = self.count(x)", ""},
                             {1, "p = self.count(x)", ""},
                             {1, "p = self.count(x)", ""},
                             {2, "return k(p)", ""}});
  CHECK(DeathOf(program, 1) == 1);
  program.calls[2].inputs = {2, 1};
  CHECK(DeathOf(program, 1) == 3);
}

// y = self.features(x), whose module "m.b" makes and reads what is its own.
TEST_CASE("a helper's names hold nothing that its modules make inside") {
  Program program = Forward({{1, "y = self.features(x)", "m.b"},
                             {1, "y = self.features(x)", "m.b"},
                             {1, "y = self.features(x)", "m.b"},
                             {1, "y = self.features(x)", ""},
                             {1, "y = self.features(x)", ""},
                             {1, "y = self.features(x)", ""},
                             {2, "return k(y)", ""}});
  program.calls[2].inputs = {2, 1};  // a residual sum of "m.b"
  CHECK(DeathOf(program, 1) == 2);
  CHECK(DeathOf(program, 3) == 3);
  program.calls[4].inputs = {4, 3};  // what "m.b" returned, read by two calls of the helper
  program.calls[4].op = "add";
  CHECK(DeathOf(program, 3) == 5);
}

TEST_CASE("a hidden line rebinds only what it reads") {
  Program program = Forward({{1, "e = self.embed(x)", "m.embed"},
                             {2, "h = g(e)", ""},
                             {3, "h = b(h)", "m.b"},
                             {4, "return k(h)", ""}});
  program.calls[2].module = program.modules.Enter({"m", "m.b", "m.b.0"});
  // The innermost forward's alone.
  program.calls[2].frames = {program.source.Read(9, "return f(input)")};
  CHECK(DeathOf(program, 1) == 3);
  program.calls[2].inputs = {2, 1};
  CHECK(DeathOf(program, 1) == 2);
}

TEST_CASE("what helpers of libraries name is known") {
  constexpr char kBias[] = "p = self.disentangled_attention_bias(";
  Program program =
      Forward({{1, kBias, ""}, {1, kBias, ""}, {1, kBias, ""}, {2, "return k(p)", ""}});
  CHECK(DeathOf(program, 1) == 1);
  program.calls[0].op = "gather";
  CHECK(DeathOf(program, 1) == 2);
  Reread(program, "p = self.other_bias(");
  CHECK(DeathOf(program, 1) == 1);
}

// cache.update(k, v, 0), which a layer does again: its cat is what the cache holds from then on.
TEST_CASE("a cache lets go of what it replaces") {
  Program program = Forward({{1, "cache.update(k, v, 0)", ""},
                             {2, "y = self.layer(x, cache)", "m.layer"},
                             {2, "y = self.layer(x, cache)", "m.layer"},
                             {3, "return k(y)", ""}});
  program.calls[1].frames.back() =
      program.source.Read(7, "k, v = past_key_values.update(k, v, self.layer_idx)");
  program.calls[2].frames.back() = program.source.Read(8, "return f(k, v)");
  program.calls[1].op = "gather";
  CHECK(DeathOf(program, 1) == 2);
  program.calls[1].op = "cat";
  CHECK(DeathOf(program, 1) == 1);
}

// torch/nn/functional.py has names for q, k and v.
TEST_CASE("attention of torch.nn holds what it attends with") {
  constexpr char kAttention[] = "y, w = F.multi_head_attention_forward(";
  Program program = Forward(
      {{1, kAttention, ""}, {1, kAttention, ""}, {1, kAttention, ""}, {2, "return k(y)", ""}});
  CHECK(DeathOf(program, 1) == 1);
  program.calls[1].op = "scaled_dot_product_attention";
  CHECK(DeathOf(program, 1) == 2);
}

// x = self.r(g(x)): the argument dies when r returns, the old x when x is bound again.
TEST_CASE("an argument dies before what the result's name held") {
  Program program = Forward({{1, "x = f(x)", ""},
                             {2, "g(x)", ""},
                             {2, "x = self.r(g(x))", "m.r"},
                             {3, "return k(x)", ""}});
  program.calls[1].frames[0] = program.source.Read(2, "x = self.r(g(x))");
  PlaceDeaths(program, {.mode = Mode::kEval});
  CHECK(program.calls[2].dies == std::vector<NameId>{2, 1});
}

}  // namespace
}  // namespace onnxfit::statements_test

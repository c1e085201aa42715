#include "estimator/names/lifetimes.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace onnxfit::lifetimes_test {
namespace {

// A program of calls "0", "1", …, each reading the one before and living in `scopes[i]`,
// of which call 2 also reads the result of call 0.
Program Chain(const std::vector<std::vector<std::string>>& scopes) {
  Program program;
  program.values.resize(scopes.size() + 1);  // the input first
  program.inputs = {0};
  for (size_t i = 0; i < scopes.size(); ++i) {
    AtenCall call;
    call.inputs = {static_cast<NameId>(i)};
    if (i == 2) call.inputs.push_back(1);
    call.outputs = {static_cast<NameId>(i + 1)};
    call.module = program.modules.Enter(scopes[i]);
    program.calls.push_back(call);
  }
  program.outputs = {static_cast<NameId>(scopes.size())};
  return program;
}

// "name:call" for every name that dies, in order.
std::string Deaths(Program program, bool hold_outputs) {
  TrainingSettings settings;
  settings.loop.hold_outputs = hold_outputs;
  PlaceDeaths(program, settings);
  std::string text;
  for (size_t i = 0; i < program.calls.size(); ++i) {
    for (const NameId name : program.calls[i].dies) {
      text += std::to_string(name) + ":" + std::to_string(i) + " ";
    }
  }
  return text;
}

TEST_CASE("a name dies when what was given it has returned") {
  struct Row {
    const char* name;
    std::vector<std::vector<std::string>> scopes;
    const char* train;
  };
  const Row rows[] = {
      {"without modules: after the last call that reads it",
       {{}, {}, {}, {}},
       "0:0 1:2 2:2 3:3 4:3 "},
      {"an argument lives until its module returns",
       {{"m"}, {"m", "b"}, {"m", "b"}, {"m"}},
       "1:2 2:2 0:3 3:3 4:3 "},
      {"one module after the other", {{"a"}, {"b"}, {"b"}, {"c"}}, "0:0 1:2 2:2 3:3 4:3 "},
      {"a module inside: its own values die at once",
       {{"a"}, {"a"}, {"a"}, {"b"}},
       "0:2 1:2 2:2 3:3 4:3 "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Deaths(Chain(row.scopes), /*hold_outputs=*/false) == row.train);
  }
}

// Calls 0 and 1 make what call 2 joins, call 3 is behind it: all of one forward.
TEST_CASE("a list that a name holds keeps what is in it") {
  const auto deaths = [](const char* joins, const char* appends) {
    Program program;
    program.values.resize(5);
    program.inputs = {0};
    const ModuleId module = program.modules.Enter({"m"});
    const auto add = [&](const char* op, int64_t line, const char* text, std::vector<NameId> inputs,
                         NameId output) {
      AtenCall call;
      call.op = op;
      call.inputs = std::move(inputs);
      call.outputs = {output};
      call.module = module;
      call.frames = {program.source.Read(line, text)};
      program.calls.push_back(std::move(call));
    };
    add("relu", 1, appends, {0}, 1);
    add("neg", 2, "xs.append(-x)", {0}, 2);
    add("cat", 3, joins, {1, 2}, 3);
    add("relu", 4, "z = self.act(y)", {3}, 4);
    program.outputs = {4};
    return Deaths(std::move(program), /*hold_outputs=*/false);
  };
  struct Row {
    const char* joins;
    const char* appends;
    std::string deaths;
  };
  const Row rows[] = {
      {"y = torch.cat(xs, dim=1)", "xs.append(relu(x))", "0:3 1:3 2:3 3:3 4:3 "},
      {"y = torch.cat(xs, dim=1)", "a = relu(x)", "0:3 1:3 2:3 3:3 4:3 "},
      {"xs = torch.cat(xs, dim=1)", "xs.append(relu(x))", "1:2 2:2 0:3 3:3 4:3 "},
      {"y = torch.cat([xs.pop(), xs.pop()])", "xs.append(relu(x))", "1:2 2:2 0:3 3:3 4:3 "},
  };
  for (const Row& row : rows) CHECK(deaths(row.joins, row.appends) == row.deaths);
}

// The last call of a forward: its statement binds "h" anew, then the frame lets go of "k".
TEST_CASE("what a statement binds anew goes before what the frame holds") {
  Program program;
  program.values.resize(4);
  program.inputs = {0};
  const ModuleId module = program.modules.Enter({"m"});
  const auto add = [&](int64_t line, const char* text, NameId input, NameId output) {
    program.calls.push_back({.op = "relu",
                             .where = {},
                             .inputs = {input},
                             .outputs = {output},
                             .module = module,
                             .frames = {program.source.Read(line, text)}});
  };
  add(1, "k = relu(x)", 0, 1);
  add(2, "h = relu(x)", 0, 2);
  add(3, "h = self.drop(h)", 2, 3);
  program.outputs = {3};
  CHECK(Deaths(std::move(program), /*hold_outputs=*/false) == "0:2 2:2 1:2 3:2 ");
}

// "s = h", which makes no call: a line reads by the name "s" what none has bound to it.
TEST_CASE("a name that is read is bound, and holds its value until it is bound anew") {
  const auto deaths = [](const std::vector<const char*>& lines) {
    Program program;
    program.values.resize(lines.size() + 1);
    program.inputs = {0};
    const ModuleId module = program.modules.Enter({"m"});
    for (size_t i = 0; i < lines.size(); ++i) {
      AtenCall call;
      call.op = "relu";
      call.inputs = {static_cast<NameId>(i)};
      call.outputs = {static_cast<NameId>(i + 1)};
      call.module = module;
      call.frames = {program.source.Read(static_cast<int64_t>(i) + 1, lines[i])};
      program.calls.push_back(std::move(call));
    }
    program.outputs = {static_cast<NameId>(lines.size())};
    return Deaths(std::move(program), /*hold_outputs=*/false);
  };
  CHECK(deaths({"h = relu(x)", "h = roll(h)", "h = relu(h)", "h = relu(h)"}) ==
        "1:1 2:2 0:3 3:3 4:3 ");
  CHECK(deaths({"h = relu(x)", "h = roll(s)", "h = relu(h)", "h = relu(h)"}) ==
        "2:2 0:3 3:3 1:3 4:3 ");
  CHECK(deaths({"h = relu(x)", "h = s.roll()", "s = relu(h)", "h = relu(s)"}) ==
        "1:2 0:3 2:3 3:3 4:3 ");
  CHECK(deaths({"h = relu(x)", "s_h = roll(self.s)", "h = relu(s_h)", "h = relu(h)"}) ==
        "1:2 0:3 3:3 2:3 4:3 ");
}

// "s = h" before the line that adds it to what a module makes of h.
TEST_CASE("a term that a line adds is bound to its name") {
  const auto deaths = [](const char* sum) {
    Program program;
    program.values.resize(5);
    program.inputs = {0};
    const auto add = [&](const char* op, const char* text, std::vector<NameId> inputs) {
      const auto line = static_cast<int64_t>(program.calls.size()) + 1;
      program.calls.push_back(
          {.op = op,
           .where = "",
           .inputs = std::move(inputs),
           .outputs = {static_cast<NameId>(program.calls.size() + 1)},
           .module = program.modules.Enter({"m"}),
           .frames = {program.source.Read(op == std::string("add") ? line - 1 : line, text)}});
    };
    add("relu", "h = relu(x)", {0});
    add("mul.Scalar", sum, {1});
    add("add", sum, {2, 1});
    add("relu", "h = relu(h)", {3});
    program.outputs = {4};
    return Deaths(std::move(program), /*hold_outputs=*/false);
  };
  CHECK(deaths("h = f(h) * 0.5 + s") == "2:2 0:3 3:3 1:3 4:3 ");
  CHECK(deaths("h = f(h) * 0.5 + h") == "2:2 1:2 0:3 3:3 4:3 ");
}

// A tower selects a row of what it has made; `end` is the module that runs last.
TEST_CASE("a model returns what it pooled last beside that, not what a tower of it did") {
  const auto deaths = [](const char* end) {
    Program program;
    program.values.resize(5);
    program.inputs = {0};
    const StatementId line = program.source.Read(3, "outputs = self.net(x)");
    const auto add = [&](const char* op, const std::vector<std::string>& scopes,
                         std::vector<NameId> in, std::vector<StatementId> frames) {
      program.calls.push_back({.op = op,
                               .where = "",
                               .inputs = std::move(in),
                               .outputs = {static_cast<NameId>(program.calls.size() + 1)},
                               .ints = {},
                               .module = program.modules.Enter(scopes),
                               .frames = std::move(frames)});
    };
    const StatementId inner = program.source.Read(1, "y = x[:, 0]");
    add("relu", {"m", "m.net"}, {0}, {line, program.source.Read(9, "h = f(x)")});
    add("select", {"m", "m.net", "m.net.pooler"}, {1},
        {line, program.source.Read(8, "p = self.pooler(h)"), inner});
    add("relu", {"m", "m.net", end}, {2},
        {line, program.source.Read(7, "y = self.last(p)"), inner});
    add("relu", {"m"}, {3}, {program.source.Read(6, "y = self.act(y)")});
    program.outputs = {4};
    return Deaths(std::move(program), /*hold_outputs=*/false);
  };
  CHECK(deaths("m.net.lm").find("1:3 ") == std::string::npos);
  CHECK(deaths("m.net.pooler").find("1:3 ") != std::string::npos);
}

// Calls of the modules m.stages.0 to m.stages.2, of two turns of `reads` and of `last`, in that
// order: what those make dies there.  The turns read what the first two stages made.
std::string DeathsOfStages(const char* stage, const char* reads, const char* last) {
  Program program;
  program.values.resize(7);
  program.inputs = {0};
  const auto add = [&](const char* child, int64_t line, const char* text,
                       std::vector<NameId> inputs) {
    AtenCall call;
    call.op = "relu";
    call.inputs = std::move(inputs);
    call.outputs = {static_cast<NameId>(program.calls.size() + 1)};
    call.module = program.modules.Enter({"m", child});
    call.frames = {program.source.Read(line, text), kNoStatement};
    program.calls.push_back(std::move(call));
  };
  add("m.stages.0", 1, stage, {0});
  add("m.stages.1", 1, stage, {1});
  add("m.stages.2", 1, stage, {2});
  add("m.sides.0", 3, reads, {2});
  add("m.sides.1", 3, reads, {1});
  add("m.head", 5, last, {5});
  program.outputs = {6};
  return Deaths(std::move(program), /*hold_outputs=*/false);
}

// for stage in self.stages: x = stage(x); xs.append(x)
TEST_CASE("what a loop has made and a later one reads is in a list with the rest") {
  constexpr char kHeld[] = "1:5 2:5 3:5 ";
  constexpr char kSide[] = "y = side(c)";
  const auto is_held = [&](const char* stage, const char* reads, const char* last) {
    return DeathsOfStages(stage, reads, last).find(kHeld) != std::string::npos;
  };
  CHECK(is_held("x = stage(x)", kSide, "z = self.head(y)"));
  CHECK_FALSE(is_held("x = stage(x)", "y = side(xs.pop())", "z = self.head(y)"));
  CHECK_FALSE(is_held("x = [stage(x) for stage in self.stages]", "x = [side(c) for c in x]",
                      "z = self.head(x)"));
  CHECK_FALSE(
      is_held("x = f([stage(x) for stage in self.stages])", "x = side(c)", "z = self.head(x)"));
}

TEST_CASE("a name lives until a return has made all its turns") {
  CHECK(DeathsOfStages("xs.append(stage(x))", "return [side(c) for c in xs]", "z = self.head(y)")
            .find("1:4 2:4 3:4 ") != std::string::npos);
}

// xs = [relu(x)]; y = g(xs.pop()); z = h(y)
TEST_CASE("a list lets go of what is taken from it") {
  const auto deaths = [](const char* takes) {
    Program program;
    program.values.resize(4);
    program.inputs = {0};
    const char* lines[] = {"xs = [relu(x)]", takes, "z = h(y)"};
    for (NameId i = 0; i < 3; ++i) {
      program.calls.push_back({.op = "relu",
                               .where = "",
                               .inputs = {i},
                               .outputs = {i + 1},
                               .module = program.modules.Enter({"m"}),
                               .frames = {program.source.Read(i + 1, lines[i])}});
    }
    program.outputs = {3};
    return Deaths(std::move(program), /*hold_outputs=*/false);
  };
  CHECK(deaths("y = g(xs.pop())").find("1:1 ") != std::string::npos);
  CHECK(deaths("y = g(xs[0])").find("1:2 ") != std::string::npos);
}

// q, k = rotate(q, k) makes names 1 and 2, q = f(q) name 3 and k = g(k) name 4.
TEST_CASE("of several results each is bound to its own name") {
  const auto deaths = [](const char* pair) {
    Program program;
    program.values.resize(6);
    program.inputs = {0};
    SourceLines& source = program.source;
    const std::vector<std::pair<std::vector<NameId>, StatementId>> lines = {
        {{0}, source.Read(7, pair)},
        {{0}, source.Read(7, pair)},
        {{2}, source.Read(8, "k = g(k)")},
        {{1}, source.Read(9, "q = f(q)")},
        {{3, 4}, source.Read(10, "return q + k")}};
    for (size_t i = 0; i < lines.size(); ++i) {
      program.calls.push_back({.op = "relu",
                               .where = "",
                               .inputs = lines[i].first,
                               .outputs = {static_cast<NameId>(i + 1)},
                               .module = program.modules.Enter({"m"}),
                               .frames = {lines[i].second}});
    }
    program.outputs = {5};
    return Deaths(program, /*hold_outputs=*/false);
  };
  CHECK(deaths("q, k = rotate(q, k)").starts_with("2:2 1:3 "));
  CHECK(deaths("x = rotate(q, k)").find("2:2") == std::string::npos);
}

// Two turns of a loop over blocks, each of two calls in `line`, whose results a sum reads.
TEST_CASE("a further turn binds a further name anew, or passes on what it holds") {
  const auto deaths = [](const char* line) {
    Program program;
    program.values.resize(8);
    program.inputs = {0};
    SourceLines& source = program.source;
    const auto add = [&](std::vector<NameId> inputs, const std::vector<std::string>& scopes,
                         std::vector<StatementId> frames) {
      const auto output = static_cast<NameId>(program.calls.size() + 1);
      program.calls.push_back({.op = "relu",
                               .where = "",
                               .inputs = std::move(inputs),
                               .outputs = {output},
                               .module = program.modules.Enter(scopes),
                               .frames = std::move(frames)});
    };
    for (const NameId x : {0, 3}) {
      const std::string block = x == 0 ? "b.0" : "b.1";
      add({x}, {"m", block}, {source.Read(7, line), source.Read(20, "y = f(x)")});
      add({x}, {"m", block}, {source.Read(7, line), source.Read(21, "return h(x), y")});
      add({x + 1, x + 2}, {"m"}, {source.Read(8, "x = r + s")});
    }
    add({6}, {"m"}, {source.Read(9, "z = self.end(x)")});
    program.outputs = {7};
    return Deaths(program, /*hold_outputs=*/false);
  };
  CHECK(deaths("r, s = block(x)") == "1:4 2:4 3:5 0:6 4:6 5:6 6:6 7:6 ");
  CHECK(deaths("r, s = block(x, s)") == "2:4 3:5 0:6 1:6 4:6 5:6 6:6 7:6 ");
  CHECK(deaths("r, s = block(") == "2:4 3:5 0:6 1:6 4:6 5:6 6:6 7:6 ");
  CHECK(deaths("r, s = block(x, s)").find(" 1:6 ") != std::string::npos);
}

TEST_CASE("the loop may hold the result") {
  CHECK(Deaths(Chain({{}, {}, {}}), /*hold_outputs=*/true) == "0:0 1:2 2:2 ");
}

}  // namespace
}  // namespace onnxfit::lifetimes_test

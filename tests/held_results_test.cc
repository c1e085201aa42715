// What names hold by the lines around calls: of loops, methods, lists, tuples and chains.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/death_of.h"

namespace onnxfit::held_results_test {
namespace {

constexpr char kConv[] = "return conv(x)";

TEST_CASE("a loop whose line goes on below passes what the block calls its argument") {
  const auto death = [](const std::string& inner) {
    const auto turn = [&](NameId read, const std::string& block) {
      return Line{
          {read}, {"m", block, block + ".ln"}, {{9, "outputs = block("}, {3, inner}, {1, kConv}}};
    };
    return DeathOf(1, {{{0}, {"m", "m.norm"}, {{7, "hidden_states = self.norm(x)"}, {1, kConv}}},
                       turn(1, "m.h.0"),
                       turn(2, "m.h.1"),
                       {{3}, {"m"}, {{11, "return hidden_states.relu()"}}}});
  };
  CHECK(death("y = self.ln(hidden_states)") == 1);
  CHECK(death("y = self.ln(x)") == 3);
}

TEST_CASE("a method that calls a module returns as many values as its line has targets") {
  const auto death = [](const std::string& line, const std::vector<NameId>& read) {
    return DeathOf(2, {{{0}, {"m"}, {{5, line}}},
                       {{1}, {"m", "m.kv"}, {{5, line}, {1, kConv}}},
                       {{2}, {"m"}, {{5, line}}},
                       {read, {"m"}, {{6, "y = attend(kept)"}}},
                       {{4}, {"m"}, {{7, "z = relu(y)"}}}});
  };
  CHECK(death("k, v = self.expand(x)", {2, 3}) == 4);
  CHECK(death("kept = self.expand(x)", {2, 3}) == 4);  // a list
  CHECK(death("kept = self.expand(x)", {3}) == 2);     // a local of the method
}

TEST_CASE("a line that returns several values shows which") {
  const auto death = [](const std::string& call, const std::string& returned) {
    return DeathOf(1, {{{0}, {"m", "m.attn"}, {{9, call}, {1, "attention = softmax(x)"}}},
                       {{1}, {"m", "m.attn"}, {{9, call}, {2, "out = bmm(attention)"}}},
                       {{2}, {"m", "m.attn"}, {{9, call}, {3, returned}}},
                       {{3}, {"m"}, {{10, "y = relu(x)"}}},
                       {{4}, {"m"}, {{11, "return y.relu()"}}}});
  };
  CHECK(death("x, p = self.attn(x)", "return self.gamma * out, attention") == 4);
  CHECK(death("x = self.attn(x)", "return f(out, attention)") == 2);
  // Nobody reads the first of both.
  const auto pair = [](const std::string& returned) {
    constexpr char kCall[] = "both = self.rotary(x)";
    return DeathOf(1, {{{0}, {"m", "m.rotary"}, {{9, kCall}, {3, returned}}},
                       {{0}, {"m", "m.rotary"}, {{9, kCall}, {3, returned}}},
                       {{2}, {"m"}, {{10, "y = relu(x)"}}},
                       {{3}, {"m"}, {{11, "return y.relu()"}}}});
  };
  CHECK(pair("return cos.to(t), sin.to(t)") == 3);
  CHECK(pair("return f(cos.to(t), sin.to(t))") == 0);
}

TEST_CASE("lines of one chain of calls are a statement, whose name is in a line above") {
  const auto death = [](const std::string& below, const std::string& reader) {
    return DeathOf(2, {{{0}, {"m", "m.key"}, {{14, "self.key(x)"}, {1, kConv}}},
                       {{1}, {"m"}, {{15, below}}},
                       {{2}, {"m"}, {{18, reader}}},
                       {{3}, {"m"}, {{19, "z = s.relu()"}}}});
  };
  CHECK(death(".float()", "s = relu(k)") == 3);
  CHECK(death(".float()", "k = k.relu()") == 2);
  CHECK(death("relu(x)", "s = relu(k)") == 2);
}

TEST_CASE("a name is bound anew behind all turns of a comprehension") {
  const auto death = [](const std::string& line) {
    const auto turn = [&](const std::string& path) {
      return Line{{1}, {"m", path}, {{14, line}, {1, kConv}}};
    };
    return DeathOf(1, {{{0}, {"m", "m.embed"}, {{13, "x = self.embed(x)"}, {1, kConv}}},
                       turn("m.convs.0"),
                       turn("m.convs.1"),
                       {{3}, {"m"}, {{14, line}}},
                       {{4}, {"m"}, {{16, "z = y.relu()"}}}});
  };
  CHECK(death("x = [F.relu(conv(x)) for conv in self.convs]") == 3);
  CHECK(death("y = [F.relu(conv(x)) for conv in self.convs]") == 4);
}

TEST_CASE("a dict holds what each turn puts into it") {
  const auto death = [](const std::string& line) {
    return DeathOf(1, {{{0}, {"m", "m.rotary"}, {{14, line}, {1, kConv}}},
                       {{0}, {"m", "m.rotary"}, {{14, line}, {1, kConv}}},
                       {{1, 2}, {"m"}, {{15, "y = f(held)"}}},
                       {{3}, {"m"}, {{16, "z = y.relu()"}}}});
  };
  CHECK(death("held[kind] = self.rotary(x)") == 3);
  CHECK(death("f(held[kind], self.rotary(x))") == 2);
}

TEST_CASE("a dict keeps what a line puts under a name") {
  const auto death = [](const std::string& line) {
    return DeathOf(1, {{{0}, {"m"}, {{14, line}}},
                       {{1}, {"m"}, {{15, "y = make_mask(**kwargs)"}}},
                       {{2}, {"m"}, {{16, "z = y.relu()"}}},
                       {{3}, {"m"}, {{17, "z = z.relu()"}}}});
  };
  CHECK(death("kwargs[\"ids\"] = torch.where(x, 0, 1)") == 3);
  CHECK(death("kwargs[i] = torch.where(x, 0, 1)") == 1);
}

// A method makes `read` of what it makes before, then a number that it checks.
TEST_CASE("what a method checks last is not what it returns") {
  const auto death = [](NameId read) {
    const std::string line = "mask = self.get_mask(x)";
    return DeathOf(1, {{{0}, {"m"}, {{14, line}}},
                       {{1}, {"m"}, {{14, line}}},
                       {{read}, {"m"}, {{15, "y = f(mask)"}}},
                       {{3}, {"m"}, {{16, "z = y.relu()"}}},
                       {{4}, {"m"}, {{17, "z = z.relu()"}}}});
  };
  CHECK(death(1) == 4);
  CHECK(death(2) == 1);
}

// As ModernBertDecoderLayer, where "hidden_states = attn_outputs[0]" stands behind the call.
TEST_CASE("a name that takes the first result lets go of what the call was given") {
  const auto death = [](const std::string& call) {
    return DeathOf(1, {{{0}, {"m", "m.norm"}, {{1, "hidden_states = self.norm(x)"}, {9, kConv}}},
                       {{1}, {"m", "m.attn"}, {{2, call}, {9, kConv}}},
                       {{0, 2}, {"m"}, {{4, "hidden_states = residual + hidden_states"}}},
                       {{3}, {"m"}, {{5, "return hidden_states.relu()"}}}});
  };
  CHECK(death("attn_outputs = self.attn(hidden_states=hidden_states)") == 1);
  CHECK(death("others = self.attn(hidden_states=hidden_states)") == 2);
}

TEST_CASE("a list holds what all turns of a line have made") {
  const auto death = [](const std::string& line) {
    const auto turn = [&](const std::string& module) {
      return Line{{0}, {"m", module}, {{5, line}, {1, kConv}}};
    };
    return DeathOf(1, {turn("m.nodes.0_0"),
                       turn("m.nodes.1_0"),
                       {{1, 2}, {"m"}, {{6, "y = f(rows[0], rows[1])"}}},
                       {{3}, {"m"}, {{7, "z = g(y)"}}}});
  };
  CHECK(death("rows.append([self.nodes[i](x)])") == 3);
  CHECK(death("f([self.nodes[i](x)])") == 2);
}

TEST_CASE("a forward that returns what it was given binds nothing that it has made") {
  const auto deaths = [](const std::string& line) {
    const std::vector<Line> lines = {
        {{0}, {"m", "m.embed"}, {{4, "x = self.embed(y)"}, {1, kConv}}},
        {{1}, {"m", "m.extend"}, {{5, line}, {2, "mask = f(x)"}}},
        {{1}, {"m"}, {{6, "y = f(x)"}}},
        {{3}, {"m"}, {{7, "z = g(y)"}}},
        {{4}, {"m"}, {{8, "z = h(z)"}}}};
    return std::pair(DeathOf(1, lines), DeathOf(2, lines));
  };
  CHECK(deaths("x = self.extend(x)") == std::pair<int64_t, int64_t>(4, 1));
  CHECK(deaths("mask = self.extend(x)") == std::pair<int64_t, int64_t>(4, 4));
}

// "y = sigmoid(x[:1]) * tanh(", whose last part goes on behind the line below it.
TEST_CASE("a statement goes on behind the lines of its arguments") {
  const auto death = [](const std::string& first, NameId last) {
    return DeathOf(1, {{{0}, {"m"}, {{3, "x = self.pad(x)"}}},
                       {{1}, {"m"}, {{4, first}}},
                       {{1}, {"m"}, {{5, "x[1:]"}}},
                       {{3}, {"m"}, {{4, first}}},
                       {{last, 4}, {"m"}, {{4, first}}},
                       {{5}, {"m"}, {{6, "return relu(x)"}}}});
  };
  CHECK(death("x = sigmoid(x[:1]) * tanh(", 2) == 4);
  CHECK(death("x = sigmoid(x[:1]) * tanh(", 3) == 2);  // which reads nothing of its first part
  CHECK(death("x = sigmoid(x[:1]) * tanh(x)", 2) == 2);
}

TEST_CASE("what is left out of a module binds none of its caller's names") {
  const auto death = [](ModuleId module) {
    Program program;
    program.values.resize(5);
    program.inputs = {0};
    const ModuleId outer = program.modules.Enter({"m"});
    const ModuleId inner = program.modules.Enter({"m", "m.decoder"});
    const StatementId call = program.source.Read(8, "y = self.decoder(x, mask)");
    const auto add = [&](ModuleId in, std::vector<StatementId> frames, NameId read, NameId made) {
      program.calls.push_back({.op = "relu",
                               .where = "",
                               .inputs = {read},
                               .outputs = {made},
                               .module = in,
                               .frames = std::move(frames)});
    };
    add(outer, {program.source.Read(7, "mask = ones(x)")}, 0, 1);
    add(inner, {call, program.source.Read(2, "x = f(x)")}, 0, 2);
    add(inner, {call, program.source.Read(4, "x = g(x)")}, 2, 3);
    add(outer, {program.source.Read(9, "return relu(y)")}, 3, 4);
    program.outputs = {4};
    program.rebindings = {{1, 1, program.source.Read(3, "mask = ~mask"), module}};
    PlaceDeaths(program, {});
    const auto dies = [](const AtenCall& it) { return std::ranges::count(it.dies, 1) > 0; };
    return std::ranges::find_if(program.calls, dies) - program.calls.begin();
  };
  CHECK(death(/*m.decoder*/ 2) == 3);
  CHECK(death(/*m*/ 1) == 1);
}

TEST_CASE("a dict of keywords for masks holds the embeddings") {
  const auto death = [](const std::string& line) {
    return DeathOf(2, {{{0}, {"m", "m.embed"}, {{4, "x = self.embed(y)"}, {1, kConv}}},
                       {{1}, {"m"}, {{5, "x = x * scale"}}},
                       {{0}, {"m"}, {{6, line}}},
                       {{2}, {"m"}, {{7, "x = f(x)"}}},
                       {{3, 4}, {"m"}, {{8, "z = g(x, mask)"}}}});
  };
  CHECK(death("mask = make_mask(**mask_kwargs)") == 4);
  CHECK(death("mask = make_mask(**kwargs)") == 3);
}

// Attention of three layers, whose last two read what call 0 has made: it reads `line`.
TEST_CASE("the last layer of a kind stores keys and values for others") {
  const auto deaths = [](const std::string& line) {
    std::vector<Line> lines = {{{0}, {"m", "m.rope"}, {{3, "a = self.rope(x)"}, {1, kConv}}},
                               {{0}, {"m", "m.rope"}, {{4, "b = self.rope(x)"}, {1, kConv}}}};
    for (const NameId rope : {1, 2, 2}) {
      const std::string layer = "m.h." + std::to_string(lines.size() / 3);
      const auto call = [&](NameId read, NameId other, int64_t number, const std::string& text) {
        lines.push_back({{read, other},
                         {"m", layer, layer + ".attn"},
                         {{5, "x = layer(x)"}, {2, "x = self.attn(x)"}, {number, text}}});
      };
      const auto last = static_cast<NameId>(lines.size());
      lines.push_back({{last}, {"m", layer}, {{5, "x = layer(x)"}, {1, "x = f(x)"}}});
      call(last + 1, rope, 7, line);
      call(last + 1, last + 2, 8, "y = f(x)");
    }
    lines.push_back({{static_cast<NameId>(lines.size())}, {"m"}, {{6, "x = f(x)"}}});
    lines.push_back({{static_cast<NameId>(lines.size())}, {"m"}, {{9, "z = g(x)"}}});
    std::string text;
    for (const NameId name : {4, 7, 10}) text += std::to_string(DeathOf(name, lines)) + " ";
    return text;
  };
  CHECK(deaths("value_states = self.v_norm(value_states)") == "12 7 12 ");
  CHECK(deaths("value_states = self.norm(value_states)") == "4 7 10 ");
}

}  // namespace
}  // namespace onnxfit::held_results_test

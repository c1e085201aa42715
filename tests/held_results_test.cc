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

TEST_CASE("what a forward collects in a list, its callers' names hold") {
  const auto death = [](const std::string& turn) {
    const auto layer = [&](NameId read, int64_t line, const std::string& path) {
      return Line{{read},
                  {"m", "m.neck", "m.neck.fusion", path},
                  {{20, "h = self.neck(x)"},
                   {10, "output = self.fusion(features)"},
                   {line, turn},
                   {1, kConv}}};
    };
    return DeathOf(1, {layer(0, 5, "m.neck.fusion.layers.0"),
                       layer(1, 6, "m.neck.fusion.layers.1"),
                       {{2}, {"m"}, {{21, "y = head(h)"}}},
                       {{3}, {"m"}, {{22, "return y.relu()"}}}});
  };
  CHECK(death("fused_hidden_state = layer(x)") == 3);
  CHECK(death("state = layer(x)") == 1);
}

TEST_CASE("a caller that returns something else than the list lets go of it") {
  const auto death = [](const std::string& encoder) {
    constexpr char kTurn[] = "output_states, attn_weights = layer_module(";
    const auto layer = [&](NameId read, int64_t line, const std::string& path) {
      return Line{{read},
                  {"m", "m.base", "m.base.encoder", path},
                  {{20, "h = self.base(x)"}, {10, encoder}, {line, kTurn}, {1, kConv}}};
    };
    return DeathOf(1, {layer(0, 5, "m.base.encoder.layer.0"),
                       layer(1, 6, "m.base.encoder.layer.1"),
                       {{2}, {"m"}, {{21, "y = head(h)"}}},
                       {{3}, {"m"}, {{22, "return y.relu()"}}}});
  };
  CHECK(death("encoder_outputs = self.encoder(x)") == 1);
  CHECK(death("encoded = self.encoder(x)") == 3);
}

// As DETR's do, with masks.
TEST_CASE("forwards that are known to pass a list on return it") {
  const auto death = [](const std::string& made_behind, const std::string& collects) {
    const auto stage = [&](NameId read, const std::string& path) {
      return Line{{read},
                  {"m", "m.enc", "m.enc.model", path},
                  {{30, "found = self.enc(x)"},
                   {10, "features = self.model(x)"},
                   {5, collects},
                   {1, kConv}}};
    };
    return DeathOf(1, {stage(0, "m.enc.model.layer1"),
                       stage(1, "m.enc.model.layer2"),
                       {{0}, {"m", "m.enc"}, {{30, "found = self.enc(x)"}, {12, made_behind}}},
                       {{2}, {"m"}, {{31, "y = head(f)"}}},
                       {{4}, {"m"}, {{32, "return y.relu()"}}}});
  };
  constexpr char kMask[] = "mask = f(m, size=feature_map.shape[-2:]).to(torch.bool)[0]";
  constexpr char kCollects[] = "return list(self._collect(x).values())";
  CHECK(death(kMask, kCollects) == 4);
  CHECK(death("mask = f(m)", kCollects) == 2);
  CHECK(death("mask = f(m)", "return self.stages(x)") == 1);
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

TEST_CASE("a stage of a known class returns what its last block has made, too") {
  const auto death = [](std::string_view class_name) {
    constexpr char kCall[] = "stage_outputs = stage_module(hidden_states)";
    constexpr char kLayer[] = "hidden_states = layer_module(hidden_states)";
    return DeathOf(
        1,
        {{{0}, {"m", "m.stage", "m.stage.layers.0"}, {{9, kCall}, {3, kLayer}}},
         {{1}, {"m", "m.stage"}, {{9, kCall}, {5, "hidden_states = fold(hidden_states)"}}},
         {{2}, {"m"}, {{10, "y = relu(x)"}}},
         {{3}, {"m"}, {{11, "return y.relu()"}}}},
        "m.stage", class_name);
  };
  CHECK(death("transformers.models.focalnet.modeling_focalnet.FocalNetStage") == 3);
  CHECK(death("transformers.models.focalnet.modeling_focalnet.FocalNetLayer") == 1);
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

// As ProphetNetAttention: "return attn_output, attn_weights_reshaped", which is None.
TEST_CASE("weights that a forward keeps are not those of its caller's name") {
  const auto death = [](const std::string& product) {
    const std::pair<int64_t, std::string> caller = {5, "out, attn_weights = self.attn(x)"};
    return DeathOf(1,
                   {{{0}, {"m", "m.attn"}, {caller, {1, "attn_weights = softmax(x)"}}, "softmax"},
                    {{1}, {"m", "m.attn"}, {caller, {2, "attn_probs = f(attn_weights)"}}},
                    {{2}, {"m", "m.attn"}, {caller, {3, product}}},
                    {{3}, {"m", "m.attn"}, {caller, {4, "out = g(out)"}}},
                    {{4}, {"m"}, {{6, "z = out.relu()"}}},
                    {{5}, {"m"}, {{7, "z = z.relu()"}}}});
  };
  CHECK(death("out = torch.einsum(\"bsij,bsjk->bsik\", attn_probs, v)") == 3);
  CHECK(death("out = h(attn_probs, v)") == 5);
}

TEST_CASE("a second name may be longer in the forward that returns it") {
  const auto death = [](const std::string& name) {
    const std::pair<int64_t, std::string> caller = {5, "(logits, embeds) = self.head(x)"};
    return DeathOf(1, {{{0}, {"m", "m.head"}, {caller, {1, name + " = f(x)"}}},
                       {{1}, {"m", "m.head"}, {caller, {2, "shift = g(x)"}}},
                       {{2}, {"m", "m.head"}, {caller, {3, "y = h(shift)"}}},
                       {{3}, {"m"}, {{6, "z = y.relu()"}}},
                       {{4}, {"m"}, {{7, "z = z.relu()"}}}});
  };
  CHECK(death("image_embeds") == 4);
  CHECK(death("image_sizes") == 2);
}

// xs = [conv(y) for conv in convs], and `replaces`, two turns each; what reads all.
TEST_CASE("what takes the place of a list's item is held, and the item let go") {
  const auto deaths = [](const std::string& replaces) {
    std::string text;
    for (const NameId name : {1, 2, 3}) {
      const std::string made = "xs = [conv(y) for conv in self.convs]";
      text += std::to_string(DeathOf(name, {{{0}, {"m", "m.convs.0"}, {{4, made}, {1, kConv}}},
                                            {{0}, {"m", "m.convs.1"}, {{4, made}, {1, kConv}}},
                                            {{1}, {"m"}, {{6, replaces}}},
                                            {{2}, {"m"}, {{6, replaces}}},
                                            {{3}, {"m"}, {{7, "y = f(xs[0])"}}},
                                            {{4, 5}, {"m"}, {{8, "y = g(xs[1], y)"}}},
                                            {{6}, {"m"}, {{9, "z = y.relu()"}}}})) +
              " ";
    }
    return text;
  };
  CHECK(deaths("xs[i] = xs[i] + 1") == "2 3 6 ");
  CHECK(deaths("xs[i] = resize(") == "2 3 6 ");
  CHECK(deaths("xs[i] = resize(xs[j])") == "6 6 4 ");
  CHECK(deaths("ys[i] = ys[i] + 1") == "6 6 4 ");
}

// A forward makes `name` and what it returns first; two turns of a loop call it.
TEST_CASE("a forward returns what it calls as its caller does") {
  const auto deaths = [](const std::string& name) {
    const auto made = [&](const std::string& layer, NameId read, int64_t line,
                          const std::string& text) {
      return Line{{read}, {"m", layer}, {{5, "x, mask = layer(x)"}, {line, text}}};
    };
    const std::vector<Line> lines = {
        made("m.h.0", 0, 1, name + " = f(x)"), made("m.h.0", 0, 2, "y = g(x)"),
        made("m.h.1", 2, 1, name + " = f(x)"), made("m.h.1", 2, 2, "y = g(x)"),
        {{4}, {"m"}, {{6, "y = f(x)"}}},       {{5}, {"m"}, {{7, "z = g(y)"}}}};
    return std::pair(DeathOf(1, lines), DeathOf(3, lines));
  };
  CHECK(deaths("mask") == std::pair<int64_t, int64_t>(3, 5));
  CHECK(deaths("other") == std::pair<int64_t, int64_t>(3, 5));  // its only other name
  CHECK(deaths("y") == std::pair<int64_t, int64_t>(1, 3));
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

TEST_CASE("what nothing reads and the caller drops is returned") {
  const auto death = [](const std::string& line) {
    const auto made = [&](int64_t number, const std::string& text) {
      return Line{{0}, {"m", "m.attn"}, {{5, line}, {number, text}}};
    };
    return DeathOf(1, {made(1, "state = f(x)"),
                       made(2, "y = g(x)"),
                       {{2}, {"m"}, {{6, "x = f(x)"}}},
                       {{3}, {"m"}, {{7, "z = g(x)"}}}});
  };
  CHECK(death("x, _ = self.attn(x)") == 3);
  CHECK(death("x = self.attn(x)") == 1);
}

// self.encode calls m.tower and m.quantizer.
TEST_CASE("what nothing reads a method returns under its name") {
  const auto death = [](const std::string& line) {
    const auto made = [&](const char* module, NameId read, int64_t number, const char* text) {
      return Line{{read}, {"m", module}, {{5, line}, {number, text}}};
    };
    return DeathOf(2, {made("m.tower", 0, 1, "x = f(x)"),
                       made("m.quantizer", 1, 2, "codes = stack(codes)"),
                       made("m.quantizer", 1, 3, "y = g(x)"),
                       {{3}, {"m"}, {{6, "x = f(x)"}}},
                       {{4}, {"m"}, {{7, "z = g(x)"}}}});
  };
  CHECK(death("x, codes = self.encode(x)") == 4);
  CHECK(death("x, other = self.encode(x)") == 2);  // behind the line
  CHECK(death("x = self.encode(x)") == 2);
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

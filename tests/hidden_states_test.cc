#include "estimator/names/hidden_states.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"

namespace onnxfit::hidden_states_test {
namespace {

// A call of the modules `scopes`, which reads `inputs`; its lines are those of the forwards around
// it, outermost first, all in a file of transformers'.
struct Made {
  std::vector<std::string> scopes;
  std::vector<const char*> lines;
  std::vector<NameId> inputs;
};

// Calls "0", "1", …, of which call i makes name i + 1; name 0 is the input.
Program Of(const std::vector<Made>& calls, const char* file) {
  Program program;
  program.values.resize(calls.size() + 1);
  program.inputs = {0};
  for (size_t i = 0; i < calls.size(); ++i) {
    AtenCall call = {.op = "relu", .where = "", .inputs = calls[i].inputs};
    call.outputs = {static_cast<NameId>(i + 1)};
    call.module = program.modules.Enter(calls[i].scopes);
    for (size_t level = 0; level < calls[i].lines.size(); ++level) {
      int64_t line = 100 * (static_cast<int64_t>(level) + 1);  // that of the first with this text
      for (const Made& other : calls) {
        if (level < other.lines.size() && other.lines[level] == calls[i].lines[level]) break;
        ++line;
      }
      call.frames.push_back(program.source.Read(line, calls[i].lines[level], file));
    }
    program.calls.push_back(std::move(call));
  }
  program.outputs = {static_cast<NameId>(calls.size())};
  return program;
}

// "name:call " for each name: the call behind which it dies.
std::string Deaths(Program program) {
  const ModuleRuns runs(program);
  const std::vector<ModuleCall> modules = FindModuleCalls(program, runs);
  ValueLives lives(program, runs);
  const NameBindings bindings(program, runs, lives);
  FollowHiddenStates(program, runs, bindings, modules, lives);
  lives.Place(std::vector<bool>(program.values.size()));
  std::string text;
  for (NameId name = 1; name < static_cast<NameId>(program.values.size()); ++name) {
    for (size_t i = 0; i < program.calls.size(); ++i) {
      for (const NameId dead : program.calls[i].dies) {
        if (dead == name) text += std::to_string(name) + ":" + std::to_string(i) + " ";
      }
    }
  }
  return text;
}

constexpr char kTransformers[] = "transformers/models/net/modeling_net.py";

// Names 1 to 4: what the loop is given and makes; the head reads `state` behind it.
std::string OfLoop(NameId state, const char* list = "m.encoder.layer",
                   const char* line = "outputs = self.encoder(x)",
                   const char* file = kTransformers) {
  const std::string layers = list;
  const auto layer = [&](const char* number, NameId given) {
    return Made{{"m", "m.encoder", layers + number}, {line, "x = layer(x)", "y = f(x)"}, {given}};
  };
  return Deaths(Of({{{"m", "m.encoder"}, {line, "x = self.embed(x)"}, {0}},
                    layer(".0", 1),
                    layer(".1", 2),
                    layer(".2", 3),
                    {{"m"}, {"y = self.neck(h)"}, {state}},
                    {{"m"}, {"y = self.head(y)"}, {5}}},
                   file));
}

TEST_CASE("who reads the state of one layer holds those of all") {
  CHECK(OfLoop(2) == "1:5 2:5 3:5 4:5 5:5 6:5 ");
  CHECK(OfLoop(1) == "1:5 2:5 3:5 4:5 5:5 6:5 ");
  CHECK(OfLoop(4) == "1:1 2:2 3:3 4:4 5:5 6:5 ");  // the last one is what the loop returns
  CHECK(OfLoop(2, "m.encoder.stages") == "1:1 2:4 3:3 4:3 5:5 6:5 ");
  CHECK(OfLoop(2, "m.encoder.layer", "outputs = self.encoder(x)", "net.py") ==
        "1:1 2:4 3:3 4:3 5:5 6:5 ");
  // Of which one is taken, the others go with the line.
  CHECK(OfLoop(2, "m.encoder.layer", "h = self.encoder(x).hidden_states[1]") ==
        "1:4 2:4 3:4 4:4 5:5 6:5 ");
}

// The forward of the loop goes on behind the last state, which the head reads, too.
TEST_CASE("a last state that the loop's forward does not return is collected") {
  const auto deaths = [](bool goes_on) {
    const char* const line = "outputs = self.encoder(x)";
    const std::vector<std::string> encoder = {"m", "m.encoder"};
    std::vector<Made> calls = {
        {{"m", "m.encoder", "m.encoder.layers.0"}, {line, "x = layer(x)", "y = f(x)"}, {0}},
        {{"m", "m.encoder", "m.encoder.layers.1"}, {line, "x = layer(x)", "y = f(x)"}, {1}}};
    if (goes_on) calls.push_back({encoder, {line, "x = self.neck(x)"}, {2}});
    calls.push_back({{"m"}, {"y = self.head(h)"}, {2}});
    calls.push_back({{"m"}, {"y = self.act(y)"}, {static_cast<NameId>(calls.size())}});
    return Deaths(Of(calls, kTransformers));
  };
  CHECK(deaths(true).starts_with("1:4 2:4 "));
  CHECK(deaths(false).starts_with("1:1 2:2 "));
}

TEST_CASE("a last state that is read beside its norm is one of hidden_states") {
  const auto deaths = [](const char* norm) {
    const char* const line = "outputs = self.vision(x)";
    const char* const loop = "h = self.encoder(x)";
    const auto layer = [&](const char* path, NameId given) {
      return Made{{"m", "m.vision", "m.vision.encoder", path},
                  {line, loop, "x = layer(x)", "y = f(x)"},
                  {given}};
    };
    Program program = Of({layer("m.vision.encoder.layers.0", 0),
                          layer("m.vision.encoder.layers.1", 1),
                          {{"m", "m.vision"}, {line, "h = self.norm(h)"}, {2}},
                          {{"m"}, {"y = self.proj(outputs.hidden_states[-1])"}, {2}},
                          {{"m"}, {"y = self.act(y)"}, {4}}},
                         kTransformers);
    program.calls[2].op = norm;
    return Deaths(std::move(program));
  };
  CHECK(deaths("layer_norm").starts_with("1:4 2:4 "));
  CHECK(deaths("select").starts_with("1:1 2:3 "));
}

TEST_CASE("a backbone returns the states that are read alone") {
  CHECK(OfLoop(2, "m.encoder.layer", "outputs = self.backbone.forward_with_filtered_kwargs(x)") ==
        OfLoop(2, "m.encoder.layer", "h = self.encoder(x).hidden_states[1]"));
}

TEST_CASE("layers that do not read each other's states are no such loop") {
  const char* const line = "outputs = self.encoder(x)";
  const std::vector<std::string> first = {"m", "m.encoder", "m.encoder.layer.0"};
  const std::vector<std::string> second = {"m", "m.encoder", "m.encoder.layer.1"};
  CHECK(Deaths(Of({{first, {line, "x = layer(x)", "y = f(x)"}, {0}},
                   {second, {line, "x = layer(x)", "y = f(x)"}, {0}},
                   {{"m"}, {"y = self.neck(h)"}, {1}},
                   {{"m"}, {"y = self.head(y)"}, {3}}},
                  kTransformers)) == "1:2 2:1 3:3 4:3 ");
}

// Call 0 makes a field of what m.vision returns, call 1 pools it.
std::string OfField(const char* line, const char* caller) {
  return Deaths(Of({{{"m", "m.vision"}, {caller, line}, {0}},
                    {{"m", "m.vision"}, {caller, "pooled = self.head(x)"}, {1}},
                    {{"m"}, {"y = self.proj(pooled)"}, {2}},
                    {{"m"}, {"y = self.act(y)"}, {3}}},
                   kTransformers));
}

TEST_CASE("a last hidden state is returned beside what is pooled of it") {
  const char* const line = "last_hidden_state = self.norm(x)";
  CHECK(OfField(line, "outputs = self.vision(x)") == "1:3 2:2 3:3 4:3 ");
  CHECK(OfField(line, "pooled = self.vision(x).pooler_output") == "1:1 2:2 3:3 4:3 ");
  CHECK(OfField("hidden_states = self.norm(x)", "outputs = self.vision(x)") == "1:1 2:2 3:3 4:3 ");
  // Of a loop, what the last turn binds.
  const char* const caller = "outputs = self.vision(x)";
  const auto block = [&](const char* path, NameId given) {
    return Made{{"m", "m.vision", path}, {caller, line, "y = f(x)"}, {given}};
  };
  CHECK(Deaths(Of({block("m.vision.blocks.0", 0),
                   block("m.vision.blocks.1", 1),
                   {{"m", "m.vision"}, {caller, "pooled = self.head(x)"}, {2}},
                   {{"m"}, {"y = self.act(outputs[1])"}, {3}},
                   {{"m"}, {"y = self.head(y)"}, {4}}},
                  kTransformers))
            .starts_with("1:1 2:4 "));
}

TEST_CASE("what a module makes and nothing reads is a field, too") {
  const auto of = [](const char* caller, DType dtype) {
    Program program =
        Of({{{"m", "m.vision", "m.vision.norm"}, {caller, "state = self.norm(x)", "y = f(x)"}, {0}},
            {{"m", "m.vision", "m.vision.head"},
             {caller, "pooled = self.head(state) if self.use_head else None", "y"},
             {1}},
            {{"m"}, {"y = self.proj(outputs.state)"}, {1}},
            {{"m"}, {"y = self.head(y)"}, {3}}},
           kTransformers);
    for (ProgramValue& value : program.values) value.type.dtype = dtype;
    return Deaths(std::move(program));
  };
  CHECK(of("outputs = self.vision(x)", DType::kFloat32) == "1:2 2:3 3:3 4:3 ");
  CHECK(of("outputs = self.vision(x)", DType::kBool) == "1:2 2:1 3:3 4:3 ");
}

// m.clip calls m.clip.text, and "line" behind it; m's line is `caller`.
std::string OfClip(const char* caller, const char* line) {
  constexpr char kText[] = "text_outputs: BaseModelOutputWithPooling = self.text(";
  return Deaths(Of({{{"m", "m.clip", "m.clip.text", "m.clip.text.norm"},
                     {caller, kText, "last_hidden_state = self.norm(x)", "y = f(x)"},
                     {0}},
                    {{"m", "m.clip", "m.clip.text"}, {caller, kText, "y = self.pool(x)"}, {1}},
                    {{"m", "m.clip"}, {caller, line}, {2}},
                    {{"m", "m.clip"}, {caller, "y = self.proj(x)"}, {3}},
                    {{"m"}, {"y = self.act(y)"}, {4}},
                    {{"m"}, {"y = self.head(y)"}, {5}}},
                   kTransformers));
}

TEST_CASE("what towers return is in fields of what their caller returns") {
  constexpr char kNormed[] = "image_embeds = image_embeds / _get_vector_norm(image_embeds)";
  CHECK(OfClip("outputs = self.clip(x)", kNormed) == "1:5 2:2 3:5 4:4 5:5 6:5 ");
  CHECK(OfClip("y = self.clip(x)[0]", kNormed) == "1:3 2:2 3:3 4:4 5:5 6:5 ");
}

// Call 1 ends what m.tower makes, call 2 is m.proj, a module without others in it.
std::string OfTower(const char* caller) {
  return Deaths(
      Of({{{"m", "m.tower", "m.tower.norm"}, {caller, "x = self.norm(x)", "y = f(x)"}, {0}},
          {{"m", "m.tower"}, {caller, "x = x.reshape(n)"}, {1}},
          {{"m", "m.proj"}, {caller, "y = f(x)"}, {2}},
          {{"m"}, {"y = self.act(features.pooler_output)"}, {3}},
          {{"m"}, {"y = self.head(y)"}, {4}}},
         kTransformers));
}

TEST_CASE("what a tower makes is in what its features are asked of") {
  CHECK(OfTower("outputs = self.get_image_features(x)") == "1:1 2:4 3:3 4:4 5:4 ");
  CHECK(OfTower("features: Output = self.get_image_features(") == "1:1 2:4 3:3 4:4 5:4 ");
  CHECK(OfTower("features = self.get_image_features(") == "1:1 2:2 3:3 4:4 5:4 ");
  CHECK(OfTower("y = self.get_image_features(x).pooler_output") == "1:1 2:2 3:3 4:4 5:4 ");
}

}  // namespace
}  // namespace onnxfit::hidden_states_test

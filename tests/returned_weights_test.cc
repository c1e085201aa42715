#include "estimator/names/returned_weights.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/names/lifetimes.h"

namespace onnxfit::returned_weights_test {
namespace {

struct Made {
  const char* op;
  const char* line;  // of the innermost forward
};

// In a forward "m", `caller` calls `module`, whose forward makes `calls`, each of what the last one
// made.
Program Calling(const std::string& module, const char* caller, const std::vector<Made>& calls) {
  Program program;
  program.values.resize(calls.size() + 1);
  const ModuleId outer = program.modules.Enter({"m"});
  for (size_t i = 0; i < calls.size(); ++i) {
    AtenCall call = {.op = calls[i].op, .where = calls[i].op};
    call.inputs = {static_cast<NameId>(i)};
    call.outputs = {static_cast<NameId>(i + 1)};
    call.module = program.modules.Enter(outer, module);
    int64_t line = 20;  // that of the first call with this text
    for (const Made& made : calls) {
      if (std::string_view(made.line) == calls[i].line) break;
      ++line;
    }
    call.frames = {program.source.Read(3, caller), program.source.Read(line, calls[i].line)};
    program.calls.push_back(std::move(call));
  }
  return program;
}

// "operator as target; " for what is held.
std::string Held(const Program& program) {
  const ModuleRuns runs(program);
  const std::vector<ModuleCall> modules = FindModuleCalls(program, runs);
  std::string text;
  for (const HeldWeights& held : FindHeldWeights(program, runs, modules)) {
    const Statement& statement = modules[held.module].statements[held.statement];
    text += std::string(program.calls[static_cast<size_t>(held.weights) - 1].op) + " as " +
            statement.targets[held.place] + "; ";
  }
  return text;
}

const std::vector<Made> kAttention = {{"bmm", "s = q @ k"},
                                      {"softmax", "w = softmax(s)"},
                                      {"dropout", "w = dropout(w)"},
                                      {"bmm", "out = w @ v"}};

}  // namespace

TEST_CASE("weights are held by a second name, or by a tuple, of who calls attention") {
  const auto held = [](const char* caller) { return Held(Calling("attn", caller, kAttention)); };
  CHECK(held("x, attn_weights = self.attn(x)") == "dropout as attn_weights; ");
  CHECK(held("x, _ = self.attn(x)") == "dropout as _; ");
  CHECK(held("self_outputs = self.self(x)") == "dropout as self_outputs; ");
  CHECK(held("attn_outputs = self.attn(x)").empty());
  CHECK(held("x = self.attn(x)").empty());
  CHECK(held("x, size = self.attn(x, size)").empty());
  CHECK(held("outputs = self.attn(x, output_attentions=output_attentions)").empty());
}

TEST_CASE("an einsum weighs by views of its own") {
  const char* const line = "out = torch.einsum(\"bst,btd->bsd\", w, v)";
  const std::vector<Made> einsum = {
      {"softmax", "w = softmax(s)"}, {"einsum_operand", line}, {"permute", line}, {"bmm", line}};
  CHECK(Held(Calling("attn", "x, attn_weights = self.attn(x)", einsum)) ==
        "softmax as attn_weights; ");
  const char* const kept = "out = torch.einsum(\"bsij,bsjk->bsik\", attn_probs, v)";
  CHECK(Held(Calling("attn", "x, attn_weights = self.attn(x)",
                     {{"softmax", "w = softmax(s)"}, {"bmm", kept}}))
            .empty());
}

TEST_CASE("a library's attention that returns weights to who asks for them does not hold them") {
  const auto held = [](const char* file) {
    Program program = Calling("attn", "x = x", kAttention);
    for (AtenCall& call : program.calls) {
      call.frames[0] = program.source.Read(3, "self_outputs = self.self(", file);
    }
    return Held(program);
  };
  CHECK(held("transformers/models/megatron_bert/modeling_megatron_bert.py") ==
        "dropout as self_outputs; ");
  CHECK(held("transformers/models/perceiver/modeling_perceiver.py").empty());
}

TEST_CASE("a cast back to another tensor's type is on the way") {
  const std::vector<Made> calls = {
      {"softmax", "w = softmax(s)"}, {"type_as", "w = w.type_as(v)"}, {"bmm", "out = w @ v"}};
  CHECK(Held(Calling("attn", "x, attn_weights = self.attn(x)", calls)) ==
        "type_as as attn_weights; ");
}

TEST_CASE("weights that no name of the inner forward holds are not returned") {
  const char* const line = "x = softmax(s) @ v";
  CHECK(Held(Calling("attn", "x, _ = self.attn(x)", {{"softmax", line}, {"bmm", line}})).empty());
}

TEST_CASE("a forward that returns weights reshaped, if at all, keeps them to itself") {
  const auto held = [](const char* product) {
    return Held(Calling("attn", "x, attn_weights = self.attn(x)",
                        {{"softmax", "attn_probs = softmax(s)"}, {"bmm", product}}));
  };
  CHECK(held("attn_output = torch.bmm(attn_probs, value_states)").empty());
  CHECK(held("attn_output = torch.bmm(probs, value_states)") == "softmax as attn_weights; ");
  const std::vector<Made> reshaped = {{"softmax", "attn_probs = softmax(s)"},
                                      {"view", "attn_probs = attn_probs.view(n, h, w)"},
                                      {"bmm", "attn_output = torch.bmm(attn_probs, v)"}};
  CHECK(Held(Calling("attn", "x, attn_weights = self.attn(x)", reshaped)) ==
        "view as attn_weights; ");
}

TEST_CASE("a router's logits are held by the name that nobody wants") {
  const std::vector<Made> router = {{"linear", "logits = linear(x)"},
                                    {"softmax", "scores = softmax(logits)"},
                                    {"topk", "scores, indices = topk(scores)"}};
  CHECK(Held(Calling("gate", "_, scores, indices = self.gate(x)", router)) == "linear as _; ");
  CHECK(Held(Calling("gate", "scores, indices = self.gate(x)", router)).empty());
  std::vector<Made> attention = router;
  attention.insert(attention.begin(), {"linear", "q = linear(x)"});
  CHECK(Held(Calling("attn", "x, _, indices = self.attn(x)", attention)).empty());
}

TEST_CASE("a loop over layers keeps what the last one returned, and returns it not") {
  Program program = Calling("layers.0", "x, attn_weights = layer(x)", kAttention);
  for (AtenCall& call : program.calls) {
    const ModuleId model = program.modules.Enter({"m"});
    call.module = program.modules.Enter(program.modules.Enter(model, "decoder"), "layers.0");
    call.frames.insert(call.frames.begin(), program.source.Read(1, "outputs = self.decoder(x)"));
  }
  CHECK(Held(program) == "dropout as attn_weights; ");
}

// Which local of the forward has the same name does not tell, as in BloomAttention.
TEST_CASE("a name that is known to hold weights holds nothing else of that forward") {
  Program program = Calling("attn", "x, attn_weights = self.attn(x)",
                            {{"bmm", "attn_weights = q @ k"},
                             {"softmax", "probs = softmax(attn_weights)"},
                             {"bmm", "out = probs @ v"}});
  AtenCall next = {.op = "relu", .where = "relu", .inputs = {3}, .outputs = {4}};
  next.module = program.modules.Enter({"m"});
  next.frames = {program.source.Read(4, "x = relu(x)")};
  program.values.resize(5);
  program.calls.push_back(next);
  PlaceDeaths(program, {});
  const auto dies_at = [&](size_t call, NameId name) {
    return std::ranges::find(program.calls[call].dies, name) != program.calls[call].dies.end();
  };
  CHECK(dies_at(2, 1));  // q @ k, as attention returns
  CHECK(dies_at(3, 2));  // the weights
}

}  // namespace onnxfit::returned_weights_test

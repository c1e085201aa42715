#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/writer/eager_attention.h"

namespace onnxfit::written_attention_test {
namespace {

constexpr char kCaller[] = "attn_output, attn_weights = attention_interface(";

// eager_attention_forward of q, k, v and a mask, names 0 to 3, by the line of its caller.
struct Forward {
  Program program;
  std::string_view file = {};

  Forward() {
    for (int i = 0; i < 4; ++i) NewName();
  }

  NameId NewName() {
    program.values.push_back({"n", {{DType::kFloat32, {2, 4, 3, 3}}, {}}});
    return static_cast<NameId>(program.values.size()) - 1;
  }

  NameId Call(std::string_view op, std::vector<NameId> inputs, const char* line = kCaller) {
    const NameId made = NewName();
    program.calls.push_back(
        {.op = op, .where = "", .inputs = std::move(inputs), .outputs = {made}});
    program.calls.back().frames = {program.source.Read(1, line, file)};
    return made;
  }

  NameId Repeated(NameId name) {
    return Call("view", {Call("expand", {Call("view", {Call("slice", {name})})})});
  }
};

struct Parts {
  bool has_mask = true;
  bool casts = true;
  bool drops = true;
  bool repeats = false;
  const char* softmax_line = kCaller;
  const char* file = "";
};

// The calls that are left: "op(operands; ints)".
std::string Gathered(const Parts& parts, bool keeps_weights = false) {
  Forward forward;
  forward.file = parts.file;
  const NameId k = parts.repeats ? forward.Repeated(1) : 1;
  const NameId v = parts.repeats ? forward.Repeated(2) : 2;
  NameId weights = forward.Call("matmul", {0, forward.Call("permute", {k})});
  weights = forward.Call("mul.Scalar", {weights});
  if (parts.has_mask) weights = forward.Call("add", {weights, 3});
  weights = forward.Call("softmax", {weights}, parts.softmax_line);
  if (parts.casts) weights = forward.Call("to", {weights});
  if (parts.drops) weights = forward.Call("dropout", {weights});
  forward.program.outputs = {forward.Call("matmul", {weights, v})};
  if (keeps_weights) forward.program.outputs.push_back(weights);
  GatherWrittenAttention(forward.program);
  std::string text;
  for (const AtenCall& call : forward.program.calls) {
    text += std::string(call.op) + "(";
    for (const NameId name : call.inputs) text += std::to_string(name) + " ";
    for (const int64_t number : call.ints) text += "; " + std::to_string(number);
    text += ") ";
  }
  return text;
}

TEST_CASE("eager attention of transformers becomes one call") {
  CHECK(Gathered({}) == "eager_attention(0 1 2 3 ; 1; 0; 0) ");
  CHECK(Gathered({.has_mask = false, .drops = false}) == "eager_attention(0 1 2 -1 ; 0; 0; 0) ");
  CHECK(Gathered({.casts = false}) == "eager_attention(0 1 2 3 ; 1; 0; 1) ");
  CHECK(Gathered({.file = "models/gpt2/modeling_gpt2.py"}) ==
        "eager_attention(0 1 2 3 ; 1; 0; 2) ");
}

TEST_CASE("heads that it repeats go with it") {
  CHECK(Gathered({.repeats = true}) == "eager_attention(0 1 2 3 ; 1; 0; 0) ");
}

TEST_CASE("attention that others wrote, or whose weights are read, stays as it is") {
  const std::string with_scores = "permute(1 ) matmul(0 4 ) mul.Scalar(5 ) add(6 3 ) softmax(7 ) ";
  CHECK(Gathered({.softmax_line = "weights = scores.softmax(-1)"}).starts_with(with_scores));
  CHECK(Gathered({}, /*keeps_weights=*/true).starts_with(with_scores));
}

// How many values the last call of attention in a layer holds: q, k, v, the heads of k and v, and
// the weights.
size_t HeldBy(bool shows_lines) {
  Forward forward;
  forward.Call("scaled_dot_product_attention", {0, 1, 2});
  AtenCall& attention = forward.program.calls.back();
  attention.ints = {0, 0};
  attention.module = forward.program.modules.Enter({"m", "m.layers.0", "m.layers.0.attn"});
  if (!shows_lines) attention.frames.clear();
  TrainingSettings settings;
  settings.attention = AttentionUse::kEager;
  WriteAttentionOut(forward.program, settings);
  return forward.program.calls.back().held.size();
}

TEST_CASE("lines tell how far weights are returned, without them the layer holds them") {
  CHECK(HeldBy(/*shows_lines=*/true) == 5);
  CHECK(HeldBy(/*shows_lines=*/false) == 6);
}

}  // namespace
}  // namespace onnxfit::written_attention_test

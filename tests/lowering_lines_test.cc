#include <doctest/doctest.h>
#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "estimator/fit/estimate.h"
#include "estimator/recover/lowering.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lowering_lines_test {
namespace {

// What torch.export says of a node: its call, and lines on the way to it, the innermost last.
struct Said {
  std::string call;
  std::vector<std::string> lines;
  std::string scopes = "['', 'm', 'm.fc', 'y']";
  std::string classes = "";
};

std::string TraceOf(const Said& said, const std::string& file) {
  std::string trace;
  for (const std::string& line : said.lines) {
    trace += fmt::format("File \"{}\", line {}, in forward\n  {}\n", file, line.size(), line);
  }
  return trace;
}

// The calls of an evaluation, "add(float32)": operators and what they make.
std::string Calls(const char* text, const std::vector<Said>& says, const std::string& file,
                  Precision precision) {
  Graph graph = ParseGraph(text);
  std::vector<std::string> traces;
  for (const Said& said : says) traces.push_back(TraceOf(said, file));
  for (size_t i = 0; i < says.size(); ++i) {
    Node& node = graph.nodes[graph.nodes.size() - says.size() + i];
    node.metadata.emplace_back("pkg.torch.onnx.fx_node", says[i].call);
    node.metadata.emplace_back("pkg.torch.onnx.stack_trace", traces[i]);
    node.metadata.emplace_back("pkg.torch.onnx.name_scopes", says[i].scopes);
    node.metadata.emplace_back("pkg.torch.onnx.class_hierarchy", says[i].classes);
  }
  const Program program = Build(graph, {.precision = precision, .mode = Mode::kEval}).program;
  std::string calls;
  for (const AtenCall& call : program.calls) {
    calls += fmt::format("{}{} ", call.op, call.leaves_autocast ? " outside" : "");
  }
  return calls;
}

TEST_CASE("a norm outside of autocast is given what its type holds") {
  const char* const norm = R"(n (float[2, 4] x) => (float[2, 4] y)
    < float[4] w = ["location": "none"], float[4] b = ["location": "none"] > {
      y = LayerNormalization <axis = -1> (x, w, b) })";
  const Said said = {FxText("y", "layer_norm.default", "%x, [4], %w, %b"),
                     {"x = self.norm(x)", "return F.layer_norm(*args)"}};
  const std::string file = "transformers/models/nemotron/modeling_nemotron.py";
  CHECK(Calls(norm, {said}, file, Precision::kAmpBf16) == "to to to layer_norm outside ");
  CHECK(Calls(norm, {said}, file, Precision::kFp32) == "layer_norm ");
  CHECK(Calls(norm, {said}, "mine.py", Precision::kAmpBf16) == "layer_norm ");
}

// timm.layers.set_fast_norm(): "with torch.amp.autocast(…, enabled=False)" is in a graph of its
// own.
TEST_CASE("timm's fast norms run in the type of the autocast around them") {
  const char* const norm = R"(n (float[2, 4] x) => (float[2, 4] y)
    < float[4] w = ["location": "none"], float[4] b = ["location": "none"] > {
      y = LayerNormalization <axis = -1> (x, w, b) })";
  const auto calls = [&](const char* type, const char* line, Precision precision) {
    const Said said = {FxText("y", "layer_norm.default", "%x, [4], %w, %b"),
                       {line},
                       "['', 'm', 'm.norm', 'y']",
                       fmt::format("['N', 'M', '{}', 'aten.layer_norm.default']", type)};
    return Calls(norm, {said}, "norm.py", precision);
  };
  constexpr const char* kBody = "layer_norm = torch.ops.aten.layer_norm.default(arg0_1, [4])";
  constexpr const char* kTimms = "timm.layers.norm.LayerNorm2d";
  CHECK(calls(kTimms, kBody, Precision::kAmpBf16) ==
        "to outside to outside to outside layer_norm outside ");
  CHECK(calls(kTimms, kBody, Precision::kFp32) == "layer_norm outside ");
  CHECK(calls("mine.LayerNorm", kBody, Precision::kAmpBf16) == "layer_norm outside ");
  CHECK(calls(kTimms, "x = F.layer_norm(x)", Precision::kAmpBf16) == "layer_norm ");
}

TEST_CASE("indices that a helper makes on the host are copied each time") {
  const char* const index = R"(n (float[8, 4] x) => (float[2, 3, 4] y) {
      i = Constant <value = int64[2, 3] {0, 1, 2, 3, 4, 5}> () y = Gather <axis = 0> (x, i) })";
  const auto calls = [&](const char* line) {
    const Said said = {FxText("y", "index.Tensor", "%x, [%i]"), {line}, "['', 'm', 'y']"};
    return Calls(index, {said}, "transformers/models/sam/modeling_sam.py", Precision::kFp32);
  };
  CHECK(calls("positions = self.get_decomposed_rel_pos(x)") == "index.host ");
  CHECK(calls("positions = self.get_positions(x)") == "constant index ");
}

TEST_CASE("T5 casts what it passes to a layer to the type of the weight") {
  const char* const linear = R"(n (float[2, 3, 4] x) => (float[2, 3, 5] y)
    < float[4, 5] w = ["location": "none"] > { y = MatMul (x, w) })";
  const auto calls = [&](const char* file) {
    const Said said = {FxText("y", "linear.default", "%x, %w"),
                       {"hidden_states = self.wo(hidden_states)", "return F.linear(input)"}};
    return Calls(linear, {said}, file, Precision::kAmpBf16);
  };
  CHECK(calls("transformers/models/t5/modeling_t5.py") == "type_as linear ");
  CHECK(calls("mine.py") == "linear ");
}

TEST_CASE("what is written by a mask is cast to the type of what it is written into") {
  const char* const scatter = R"(n (float[2, 4] x, bool[2, 4] m, float[2, 4] z) => (float[2, 4] y) {
      y = Where (m, z, x) })";
  const auto calls = [&](const char* line) {
    const Said said = {
        FxText("y", "masked_scatter.default", "%x, %m, %z"), {line}, "['', 'm', 'y']"};
    return Calls(scatter, {said}, "m.py", Precision::kAmpBf16);
  };
  CHECK(calls("x = x.masked_scatter(mask, features)") == "type_as masked_scatter ");
  CHECK(calls("x = x.masked_scatter(mask, self.see(z))") == "masked_scatter ");
}

TEST_CASE("numbers are cast to the type of what a line names") {
  const char* const one_hot = R"(n (float[2, 4] x) => (float[2, 4] y)
    < float[4, 4] w = ["location": "none"] > {
      flat = MatMul (x, w) i = Greater (flat, x) y = Cast <to = 1> (i) })";
  const auto calls = [&](const char* line) {
    const std::vector<Said> says = {
        {FxText("flat", "matmul.default", "%x, %w"), {"flat = x @ w"}, "['', 'm', 'flat']"},
        {FxText("i", "gt.Tensor", "%flat, %x"), {line}, "['', 'm', 'i']"},
        {FxText("y", "_to_copy.default", "%i"), {line}, "['', 'm', 'y']"}};
    return Calls(one_hot, says, "m.py", Precision::kAmpBf16);
  };
  CHECK(calls("y = (flat > x).to(flat.dtype)") == "matmul gt type_as ");
  CHECK(calls("y = (flat > x).type_as(flat)") == "matmul gt type_as ");
  CHECK(calls("y = (flat > x).to(other.dtype)") == "matmul gt to ");
  CHECK(calls("y = (flat > x).float()") == "matmul gt to ");
}

TEST_CASE("noise of a given type has that of what it is added to") {
  const char* const noise = R"(n (float[2, 4] x) => (float[2, 4] y)
    < float[4, 4] w = ["location": "none"] > {
      h = MatMul (x, w) r = RandomNormalLike (x) y = Add (r, h) })";
  const auto calls = [&](const char* named, const char* line) {
    std::string call = FxText("r", "randn.default", "[2, 4],");
    call.replace(call.find("kwargs = {}"), 11, named);
    const std::vector<Said> says = {
        {FxText("h", "mm.default", "%x, %w"), {"h = x @ w"}, "['', 'm', 'h']"},
        {call, {line}, "['', 'm', 'r']"},
        {FxText("y", "add.Tensor", "%r, %h"), {"return r + h"}, "['', 'm', 'y']"}};
    return Calls(noise, says, "m.py", Precision::kAmpBf16);
  };
  CHECK(calls("kwargs = {dtype: torch.float32}", "r = torch.randn(2, 4, dtype=h.dtype)") ==
        "matmul bernoulli add ");
  CHECK(calls("kwargs = {}", "r = torch.randn(2, 4)") == "matmul constant add ");
  CHECK(calls("kwargs = {dtype: torch.float32}", "r = torch.randn(2, 4, dtype=torch.float32)") ==
        "matmul constant add ");
}

TEST_CASE("a distribution makes a variance beside the mean that is read") {
  const char* const split = R"(n (float[2, 4] x) => (float[2, 2] y) {
      c = Constant <value = int64 {2}> () i = Constant <value = int64 {0}> ()
      s = SplitToSequence <axis = 1> (x, c) y = SequenceAt (s, i) })";
  const auto calls = [&](const char* line) {
    const std::vector<Said> says = {
        {FxText("s", "split.Tensor", "%x, 2, 1"), {line}, "['', 'm', 's']"},
        {FxText("y", "getitem", "%s, 0"), {line}, "['', 'm', 'y']"}};
    return Calls(split, says, "diffusers/models/autoencoders/autoencoder_kl.py", Precision::kFp32);
  };
  CHECK(calls("posterior = self.encode(x).latent_dist") == "split clamp mul.Scalar exp exp ");
  CHECK(calls("mean = self.encode(x)") == "split ");
}

TEST_CASE("without lines the path of T5's second layer tells that its argument is cast") {
  const auto calls = [](const std::string& layer) {
    const Program program =
        Build(R"(net (float[2, 3, 8] x) => (float[2, 3, 4] y)
              < float[4, 8] "m.DenseReluDense.wo.weight" = ["location": "none"] > {
              ["/m/DenseReluDense/)" +
                  layer +
                  R"(/Transpose"] t = Transpose <perm = [1, 0]> ("m.DenseReluDense.wo.weight")
              ["/m/DenseReluDense/)" +
                  layer + R"(/MatMul"] y = MatMul (x, t) })",
              {.mode = Mode::kEval})
            .program;
    std::string text;
    for (const AtenCall& call : program.calls) text += std::string(call.op) + " ";
    return text;
  };
  CHECK(calls("wo") == "type_as linear ");
  CHECK(calls("wi") == "linear ");
}

}  // namespace
}  // namespace onnxfit::lowering_lines_test

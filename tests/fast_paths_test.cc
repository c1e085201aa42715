// What torch.nn runs in inference in place of its modules' forwards, beside PyTorch 2.11's own
// events of the same modules: batch 8, 50 positions, width 128, 4 heads.
#include "estimator/writer/fast_paths.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::fast_paths_test {
namespace {

struct Attention {
  int64_t heads = 4;
  bool is_causal = false;
  bool needs_weights = false;
  bool is_batch_first = true;
  bool is_padded = false;  // a mask of padding, for all heads and queries
};

// nn.MultiheadAttention of `x`, [8, 50, 128], as exports with gradients show it; its result is
// `y`.
std::string Module(const std::string& path, const std::string& x, const std::string& y,
                   const Attention& attention = {}) {
  const std::string swap = attention.is_batch_first ? "perm = [1, 0, 2]" : "perm = [0, 1, 2]";
  const std::string rows = attention.is_batch_first ? "50, 8" : "8, 50";
  const int64_t batch = attention.is_batch_first ? 8 : 50;
  const int64_t all = batch * attention.heads;
  const int64_t width = 128 / attention.heads;
  const int64_t positions = 400 / batch;
  std::string module = path;  // of its parameters
  std::ranges::replace(module, '/', '.');
  std::string text;
  const auto node = [&](const std::string& made, const std::string& call) {
    text += fmt::format("[\"/{}/{}\"] {}{} = {}\n", path, made, y, made, call);
  };
  node("_t", fmt::format("Transpose <{}> ({})", swap, x));
  node("_w", fmt::format("Transpose <perm = [1, 0]> (\"{}.in_proj_weight\")", module));
  node("_m", fmt::format("MatMul ({0}_t, {0}_w)", y));
  node("_p", fmt::format("Add ({}_m, \"{}.in_proj_bias\")", y, module));
  node("_s1", fmt::format("Constant <value = int64[5] {{1, {}, 3, 128}}> ()", rows));
  node("_u", fmt::format("Reshape ({0}_p, {0}_s1)", y));
  node("_v", fmt::format("Transpose <perm = [3, 1, 2, 0, 4]> ({}_u)", y));
  node("_s2", fmt::format("Constant <value = int64[4] {{3, {}, 128}}> ()", rows));
  node("_c", fmt::format("Reshape ({0}_v, {0}_s2)", y));
  node("_s3", fmt::format("Constant <value = int64[3] {{{}, {}, {}}}> ()", positions, all, width));
  node("_s4", fmt::format("Constant <value = int64[4] {{{}, {}, {}, {}}}> ()", batch,
                          attention.heads, positions, width));
  for (int i = 0; i < 3; ++i) {
    node(fmt::format("_i{}", i), fmt::format("Constant <value = int64 {{{}}}> ()", i));
    node(fmt::format("_g{}", i), fmt::format("Gather <axis = 0> ({0}_c, {0}_i{1})", y, i));
    node(fmt::format("_h{}", i), fmt::format("Reshape ({0}_g{1}, {0}_s3)", y, i));
    node(fmt::format("_b{}", i), fmt::format("Transpose <perm = [1, 0, 2]> ({}_h{})", y, i));
    if (attention.needs_weights) continue;
    node(fmt::format("_q{}", i), fmt::format("Reshape ({0}_b{1}, {0}_s4)", y, i));
  }
  if (attention.needs_weights) {
    node("_kt", fmt::format("Transpose <perm = [0, 2, 1]> ({}_b1)", y));
    node("_n", fmt::format("MatMul ({0}_b0, {0}_kt)", y));
    node("_e", fmt::format("Softmax <axis = -1> ({}_n)", y));
    node("_a", fmt::format("MatMul ({0}_e, {0}_b2)", y));
    node("_ap", fmt::format("Transpose <perm = [1, 0, 2]> ({}_a)", y));
  } else {
    if (attention.is_padded) {
      node("_k0", "Constant <value = int64[4] {8, 4, 1, 50}> ()");
      node("_k", fmt::format("ConstantOfShape ({}_k0)", y));
    }
    node("_a", fmt::format("Attention <scale = {1}, is_causal = {2}> ({0}_q0, {0}_q1, {0}_q2{3})",
                           y, 0.17, attention.is_causal ? 1 : 0,
                           attention.is_padded ? fmt::format(", {}_k", y) : ""));
    node("_ap", fmt::format("Transpose <perm = [2, 0, 1, 3]> ({}_a)", y));
  }
  node("_s5", "Constant <value = int64[2] {400, 128}> ()");
  node("_r", fmt::format("Reshape ({0}_ap, {0}_s5)", y));
  node("_o",
       fmt::format("Gemm <transB = 1> ({0}_r, \"{1}.out_proj.weight\", \"{1}.out_proj.bias\")", y,
                   module));
  node("_s6", fmt::format("Constant <value = int64[3] {{{}, 128}}> ()", rows));
  node("_l", fmt::format("Reshape ({0}_o, {0}_s6)", y));
  text += fmt::format("[\"/{}/out\"] {} = Transpose <{}> ({}_l)\n", path, y, swap, y);
  return text;
}

// nn.TransformerEncoderLayer of `x`.
std::string Layer(bool norm_first, const std::string& activation, const Attention& attention) {
  std::string text;
  const auto node = [&](const std::string& module, const std::string& call) {
    text += fmt::format("[\"/layer{}\"] {}\n", module, call);
  };
  const auto norm = [&](int i, const std::string& of, const std::string& made) {
    node(fmt::format("/norm{}/LayerNormalization", i),
         fmt::format("{0} = LayerNormalization <axis = -1> ({1}, \"layer.norm{2}.weight\", "
                     "\"layer.norm{2}.bias\")",
                     made, of, i));
  };
  const auto linear = [&](int i, const std::string& of) {
    node(fmt::format("/linear{}/Transpose", i),
         fmt::format("w{0} = Transpose <perm = [1, 0]> (\"layer.linear{0}.weight\")", i));
    node(fmt::format("/linear{}/MatMul", i), fmt::format("p{0} = MatMul ({1}, w{0})", i, of));
    node(fmt::format("/linear{}/Add", i),
         fmt::format("f{0} = Add (p{0}, \"layer.linear{0}.bias\")", i));
  };
  if (norm_first) norm(1, "x", "n");
  text += Module("layer/self_attn", norm_first ? "n" : "x", "s", attention);
  node("/Add", "r = Add (x, s)");
  norm(norm_first ? 2 : 1, "r", "m");
  linear(1, "m");
  node("/Act", fmt::format("h = {} (f1)", activation));
  linear(2, "h");
  node("/Add_1", fmt::format("{} = Add ({}, f2)", norm_first ? "y" : "z", norm_first ? "r" : "m"));
  if (!norm_first) norm(2, "z", "y");
  return text;
}

std::string Model(const std::string& parameters, const std::string& nodes) {
  return fmt::format(R"(<ir_version: 10, opset_import: ["": 23]>
      net (float[8, 50, 128] x) => (float[8, 50, 128] y) <{}> {{ {} }})",
                     parameters, nodes);
}

std::string Weights(const std::string& path) {
  const std::string outside = R"(= ["location": "none"])";
  return fmt::format(
      R"(float[384, 128] "{0}.in_proj_weight" {1}, float[384] "{0}.in_proj_bias" {1},
         float[128, 128] "{0}.out_proj.weight" {1}, float[128] "{0}.out_proj.bias" {1})",
      path, outside);
}

std::string LayerAlone(bool norm_first, const std::string& activation = "Relu",
                       const Attention& attention = {}) {
  const std::string outside = R"(= ["location": "none"])";
  std::string parameters = Weights("layer.self_attn");
  for (int i = 1; i <= 2; ++i) {
    const char* const dims = i == 1 ? "512, 128" : "128, 512";
    parameters += fmt::format(
        R"(, float[{2}] "layer.linear{0}.weight" {1}, float[{3}] "layer.linear{0}.bias" {1},
             float[128] "layer.norm{0}.weight" {1}, float[128] "layer.norm{0}.bias" {1})",
        i, outside, dims, i == 1 ? 512 : 128);
  }
  return Model(parameters, Layer(norm_first, activation, attention));
}

std::string AttentionAlone(const Attention& attention) {
  return Model(Weights("block.attn"),
               Module("block/attn", "x", "a", attention) + "[\"/block/Exp\"] y = Exp (a)");
}

TrainingSettings Inference(Precision precision = Precision::kFp32) {
  return {.precision = precision, .mode = Mode::kEval, .loss = Loss::kNone};
}

std::string Calls(const std::string& graph, const TrainingSettings& settings) {
  std::string text;
  for (const AtenCall& call : Build(graph, settings).program.calls) {
    text += std::string(call.op) + " ";
  }
  return text;
}

// The events of the last forward behind the batch, by size: "+614400 -204800".
std::string Events(const std::string& graph, Precision precision = Precision::kFp32) {
  std::istringstream trace(TraceText(graph, Inference(precision)));
  std::string last;
  for (std::string line; std::getline(trace, line);) {
    if (line.starts_with("forward")) last = line;
  }
  std::map<std::string, std::string> bytes;
  std::string text;
  for (size_t at = last.find(" -x ") + 4; at < last.size();) {
    const size_t end = std::min(last.find_first_of("+-", at + 1), last.size());
    std::string word = last.substr(at + 1, end - at - 1);
    const size_t colon = word.rfind(':');
    const bool is_new = last[at] == '+';
    const std::string label = word.substr(0, is_new ? colon : word.find_last_not_of(' ') + 1);
    if (is_new) bytes[label] = word.substr(colon + 1, word.find_last_not_of(' ') - colon);
    text += last[at] + bytes[label] + " ";
    at = end;
  }
  return text;
}

const std::string kFused = "+614400 +204800 +204800 -204800 -614400 ";

TEST_CASE("self-attention projects, attends and projects in one call") {
  CHECK(Events(AttentionAlone({})) == kFused + "+204800 -204800 -204800 ");
}

// "y, _ = self.attn(x, x, x)"
TEST_CASE("where weights are asked for it writes scores and context out") {
  CHECK(Events(AttentionAlone({.needs_weights = true})) ==
        "+614400 +614400 -614400 +320000 +204800 +204800 -204800 +80000 -320000 -614400 +204800 "
        "-204800 -80000 -204800 ");
}

TEST_CASE("an encoder layer adds into what its parts return, and masks its scores") {
  const std::string norm = "+204800 +1600 +1600 -1600 -1600 ";
  const std::string feed_forward = "+819200 +204800 -819200 ";
  const std::string rest = norm + "-204800 " + feed_forward + norm + "-204800 -204800 -204800 ";
  CHECK(Events(LayerAlone(false)) == kFused + rest);
  const std::string masked =
      "+614400 +614400 -614400 +320000 +80000 +320000 -80000 -320000 -320000 +204800 +204800 "
      "-204800 -614400 ";
  CHECK(Events(LayerAlone(false, "Relu", {.is_causal = true})) == masked + rest);
  CHECK(Events(LayerAlone(true, "Gelu")) == norm +
                                                "+614400 +204800 +204800 -204800 -204800 -614400 " +
                                                norm + feed_forward + "-204800 -204800 -204800 ");
}

// Scores, their mask as bools for each sequence, what is masked of them.
TEST_CASE("padding is masked in scores that are written out") {
  const std::string scores = "+320000 +400 +320000 -400 -320000 -320000 ";
  CHECK(Events(LayerAlone(false, "Relu", {.is_padded = true})).find(scores) != std::string::npos);
  CHECK(Events(AttentionAlone({.is_padded = true})).find(scores) != std::string::npos);
}

TEST_CASE("what the fast paths do not take runs as it is written") {
  const auto is_left = [](const Attention& attention, const TrainingSettings& settings) {
    return Calls(AttentionAlone(attention), settings).find("split") == std::string::npos;
  };
  CHECK_FALSE(is_left({}, Inference()));
  CHECK_FALSE(is_left({}, Inference(Precision::kBf16)));
  CHECK(is_left({}, Inference(Precision::kAmpBf16)));
  CHECK(is_left({}, {.mode = Mode::kTrain}));
  CHECK(is_left({.heads = 1}, Inference()));
  CHECK(is_left({.is_causal = true}, Inference()));
  CHECK(is_left({.is_batch_first = false}, Inference()));
}

// As nn.TransformerEncoderLayer(activation=torch.tanh), whose attention takes its own.
TEST_CASE("an encoder layer with another activation takes that of its attention alone") {
  const Program program = Build(LayerAlone(false, "Tanh"), Inference()).program;
  CHECK(std::ranges::count(program.calls, "add_", &AtenCall::op) == 0);
  CHECK(std::ranges::count(program.calls, "split", &AtenCall::op) == 1);
  REQUIRE(program.assumptions.size() == 1);
  CHECK(program.assumptions[0] ==
        "1 module of torch.nn takes PyTorch's fast path of inference, under torch.no_grad()");
}

}  // namespace
}  // namespace onnxfit::fast_paths_test

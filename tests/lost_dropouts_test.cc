#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/libraries/libraries.h"
#include "estimator/lost/lost_calls.h"
#include "estimator/recover/findings.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lost_dropouts_test {
namespace {

// What is dropped out, in the order of the program, and in which module.
std::string Dropped(const std::string& body, const TrainingSettings& settings = {}) {
  const std::string text = R"(net (int64[2, 3] ids) => (float[2, 3, 8] y)
      < float[9, 8] "m.wte.weight" = ["location": "none"], float[3, 8] "m.wpe" = ["location": "none"],
        float[8] b = ["location": "none"], float[8] s = ["location": "none"],
        float[8, 8] "onnx::MatMul_1" = ["location": "none"],
        float[8, 8] "onnx::MatMul_2" = ["location": "none"] > {
      ["/m/wte/Gather"] e = Gather ("m.wte.weight", ids) )" +
                           body + " }";
  const Program program = Build(text, settings).program;
  std::string found;
  for (const AtenCall& call : program.calls) {
    if (call.op != "dropout") continue;
    found += program.values[Index(call.inputs[0])].name + " in ";
    for (const std::string& module : program.modules.NamesOf(call.module)) found += module + "/";
    found += " ";
  }
  return found;
}

TEST_CASE("where transformers have dropouts") {
  struct Row {
    std::string name;
    std::string body;
    const char* dropped;
  };
  const std::string normed =
      R"(["/m/Add"] x = Add (e, "m.wpe") ["/m/ln/LayerNormalization"] n = LayerNormalization (x, s, b) )";
  const std::string branch =
      R"(["/m/l/fc/MatMul"] f = MatMul (n, "onnx::MatMul_1") ["/m/l/fc/Add"] g = Add (f, b) )";
  const Row rows[] = {
      {"words, where a sum reads them beside their norm; a branch",
       normed + branch + R"(["/m/l/Add"] y = Add (x, g))", "x in m/dropout/ g in m/l/dropout/ "},
      {"their norm, where nothing else reads them",
       normed + branch + R"(["/m/l/Add"] y = Add (n, g))", "n in m/dropout/ g in m/l/dropout/ "},
      {"two branches are no residual sum",
       normed + branch +
           R"(["/m/l/v/MatMul"] v = MatMul (n, "onnx::MatMul_2") ["/m/l/Add"] y = Add (v, g))",
       "n in m/dropout/ "},
      {"the branch of GPT-2's blocks",
       normed + R"(["/m/l/attn/c_proj/MatMul"] f = MatMul (n, "onnx::MatMul_1")
                   ["/m/l/Add"] y = Add (x, f))",
       "x in m/dropout/ f in m/l/attn/dropout/ "},
      {"a decoder without an encoder is OPT's, which drops no words out",
       R"(["/m/decoder/Add"] x = Add (e, "m.wpe") ["/m/decoder/Neg"] n = Neg (x)
          ["/m/decoder/Add_1"] y = Add (x, n))",
       ""},
      {"a stored sum is no residual one",
       normed +
           R"(["/m/head/MatMul"] f = MatMul (n, "onnx::MatMul_1") ["/m/Add"] y = Add (f, "m.wpe"))",
       "n in m/dropout/ "},
      {"the weights of attention that is written by hand",
       normed + R"(["/m/a/Transpose"] t = Transpose <perm = [0, 2, 1]> (n)
                   ["/m/a/MatMul"] q = MatMul (n, t) ["/m/a/Softmax"] w = Softmax (q)
                   ["/m/a/MatMul_1"] y = MatMul (w, n))",
       "n in m/dropout/ w in m/a/dropout/ "},
      {"the same behind a view", normed + R"(["/m/a/Transpose"] t = Transpose <perm = [0, 2, 1]> (n)
                   ["/m/a/MatMul"] q = MatMul (n, t) ["/m/a/Softmax"] w = Softmax (q)
                   v = Shape (w) ["/m/a/Reshape"] u = Reshape (w, v)
                   ["/m/a/MatMul_1"] y = MatMul (u, n))",
       "n in m/dropout/ w in m/a/dropout/ "},
      {"words that a mask is multiplied with",
       normed +
           R"(one = Constant <value = float {1}> () d = Constant <value = int64[3] {2, 3, 1}> ()
                   ones = Expand (one, d) ["/m/Mul"] o = Mul (n, ones)
                   ["/m/l/Relu"] y = Relu (o))",
       "o in m/dropout/ "},
      {"a table of relative positions, whose scores a gather picks",
       normed + R"(["/m/a/k/MatMul"] k = MatMul ("m.wpe", "onnx::MatMul_1")
                   ["/m/a/Transpose"] t = Transpose <perm = [1, 0]> (k)
                   ["/m/a/MatMul"] scores = MatMul (n, t) zero = Constant <value = int64 {0}> ()
                   d = Constant <value = int64[3] {2, 3, 8}> () i = Expand (zero, d)
                   ["/m/a/GatherElements"] y = GatherElements <axis = 2> (scores, i))",
       "n in m/dropout/ m.wpe in m/a/pos_dropout/ "},
      {"one whose scores are taken as they are",
       normed + R"(["/m/a/k/MatMul"] k = MatMul ("m.wpe", "onnx::MatMul_1")
                   ["/m/a/Transpose"] t = Transpose <perm = [1, 0]> (k)
                   ["/m/a/MatMul"] scores = MatMul (n, t) ["/m/a/MatMul_1"] y = MatMul (scores, "m.wpe"))",
       "n in m/dropout/ "},
      {"the last layer of torch.nn.TransformerEncoderLayer's feed-forward block",
       normed + R"(["/m/l/Relu"] r = Relu (n)
                   ["/m/l/linear2/MatMul"] y = MatMul (r, "onnx::MatMul_1"))",
       "n in m/dropout/ r in m/l/dropout/ "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Dropped(row.body, {.dropout = 0.1}) == row.dropped);
    CHECK(Dropped(row.body, {.dropout = 0}).empty());
    CHECK(Dropped(row.body, {.mode = Mode::kEval}).empty());
  }
}

// n to x + g through two linear layers: "first" and "second" are their modules.
std::string FeedForward(const std::string& first, const std::string& second,
                        const std::string& last = R"(["/m/l/Add"] y = Add (x, g))") {
  return "[\"/m/l/" + first + "/MatMul\"] k = MatMul (n, \"onnx::MatMul_1\") [\"/m/l/" + first +
         "/Add\"] h = Add (k, b) [\"/m/l/Sigmoid\"] i = Sigmoid (h) [\"/m/l/Mul\"] u = Mul (h, "
         "i) " +
         "[\"/m/l/" + second + "/MatMul\"] f = MatMul (u, \"onnx::MatMul_2\") [\"/m/l/" + second +
         "/Add\"] g = Add (f, b) " + last;
}

TEST_CASE("feed-forward blocks drop out where the file leaves no trace, if told") {
  struct Row {
    const char* name;
    std::string body;
    const char* dropped;
  };
  const std::string half = R"(p = Constant <value = float {0.5}> () )";
  const std::string scaled = half + R"(["/m/l/Mul_1"] r = Mul (g, p) ["/m/l/Add"] y = Add (x, r))";
  const char* const both = "u in m/l/f/dropout/ g in m/l/dropout/ ";
  const Row rows[] = {
      {"behind SiLU and behind the block", FeedForward("f/a", "f/b"), both},
      {"the block scaled by a number", FeedForward("f/a", "f/b", scaled),
       "u in m/l/f/dropout/ g in m/l/f/dropout_1/ "},
      {"the number first",
       FeedForward("f/a", "f/b",
                   half + R"(["/m/l/Mul_1"] r = Mul (p, g) ["/m/l/Add"] y = Add (r, x))"),
       "u in m/l/f/dropout/ g in m/l/f/dropout_1/ "},
      {"the block divided by one",
       FeedForward("f/a", "f/b",
                   half + R"(["/m/l/Div"] r = Div (g, p) ["/m/l/Add"] y = Add (x, r))"),
       "u in m/l/f/dropout/ g in m/l/f/dropout_1/ "},
      {"the block scaled by a vector of the file",
       FeedForward("f/a", "f/b", R"(["/m/l/Mul_1"] r = Mul (s, g) ["/m/l/Add"] y = Add (x, r))"),
       "u in m/l/f/dropout/ g in m/l/f/dropout_1/ "},
      {"no residual sum", FeedForward("f/a", "f/b", R"(["/m/l/Neg"] y = Neg (g))"), ""},
      {"layers of two modules' forwards, as BERT's", FeedForward("intermediate/d", "output/d"),
       "g in m/l/dropout/ "},
      {"GPT-2's", FeedForward("mlp/c_fc", "mlp/c_proj"), "g in m/l/mlp/dropout/ "},
      {"nanoGPT's", FeedForward("c_fc", "c_proj"), "g in m/l/dropout/ "},
      {"DistilBERT's", FeedForward("ffn/lin1", "ffn/lin2"), "g in m/l/dropout/ "},
      {"neighbours in a Sequential",
       R"(["/m/l/f/f.0/MatMul"] k = MatMul (n, "onnx::MatMul_1") ["/m/l/f/f.0/Add"] h = Add (k, b)
          ["/m/l/f/f.1/Relu"] u = Relu (h)
          ["/m/l/f/f.2/MatMul"] g = MatMul (u, "onnx::MatMul_2") ["/m/l/Add"] y = Add (x, g))",
       "g in m/l/dropout/ "},
      {"layers of two dimensions, as onnxsim leaves them, without modules",
       R"(c = Constant <value = int64[2] {6, 8}> () d = Constant <value = int64[3] {2, 3, 8}> ()
          o = Reshape (n, c) h = Gemm (o, "onnx::MatMul_1", b) k = Reshape (h, d)
          u = com.microsoft.QuickGelu (k) i = Reshape (u, c) f = Gemm (i, "onnx::MatMul_2", b)
          g = Reshape (f, d) ["/m/l/Add"] y = Add (x, g))",
       "u in dropout/ g in m/l/dropout/ "},
      {"fc1 and fc2 of an own block", FeedForward("l.0/fc1", "l.0/fc2"),
       "u in m/l/l.0/dropout/ g in m/l/dropout/ "},
      {"fc1 and fc2 of fairseq's layers",
       FeedForward("l.0/fc1", "l.0/fc2",
                   R"(["/m/l/Add"] j = Add (x, g)
                      "own.m.l.0.final_layer_norm.weight" = Identity (s)
                      y = LayerNormalization (j, "own.m.l.0.final_layer_norm.weight", b))"),
       "g in m/l/dropout/ "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string body = "x = Neg (e) n = Softmax (x) " + row.body;
    CHECK(Dropped(body, {.dropout = 0.1}) == std::string("e in m/dropout/ ") + row.dropped);
    CHECK(Dropped(body, {.dropout = 0}).empty());
  }
}

TEST_CASE("what only few feed-forward blocks drop out is a doubt, not a guess") {
  const std::string body =
      "n = Softmax (e) x = Neg (n) " +
      FeedForward("f/a", "f/b", R"(["/m/l/Mul_1"] r = Mul (s, g) ["/m/l/Add"] y = Add (x, r))");
  CHECK(Dropped(body) == "e in m/dropout/ ");
  CHECK(Dropped(body, {.placed_dropouts = {{"m.l.f.dropout*", 0.1}}}) ==
        "e in m/dropout/ u in m/l/f/dropout/ g in m/l/f/dropout_1/ ");
  CHECK(Dropped(body, {.dropout = 0, .placed_dropouts = {{"*.f.dropout", 0.1}}}) ==
        "u in m/l/f/dropout/ ");
}

constexpr char kMacaron[] = R"(net (float[2, 3, 8] x) => (float[2, 3, 8] y)
    < float[8] b = ["location": "none"], float[8, 8] "onnx::MatMul_1" = ["location": "none"],
      float[8, 8] "onnx::MatMul_2" = ["location": "none"] > {
    ["/f/a/MatMul"] k = MatMul (x, "onnx::MatMul_1") ["/f/a/Add"] h = Add (b, k)
    ["/f/Sigmoid"] i = Sigmoid (h) ["/f/Mul"] u = Mul (h, i)
    ["/f/b/MatMul"] f = MatMul (u, "onnx::MatMul_2") ["/f/b/Add"] g = Add (b, f)
    p = Constant <value = float {0.5}> () ["/Mul"] r = Mul (g, p) ["/Add"] y = Add (x, r) })";

TEST_CASE("a scaled branch leaves open whether it drops out") {
  const auto dropouts = [](const Program& program) {
    return std::ranges::count(program.calls, "dropout", &AtenCall::op);
  };
  const Program open = Build(kMacaron, {}).program;
  CHECK(dropouts(open) == 0);
  CHECK(std::ranges::count(open.doubts, Doubt::kDropout) == 1);
  const Program told = Build(kMacaron, {.dropout = 0.1}).program;
  CHECK(dropouts(told) == 2);
  CHECK(told.doubts.empty());
}

// ConvModule of conformers: a layer over channels, behind which it drops out and transposes.
TEST_CASE("a convolution of one element is a linear layer where the model attends") {
  const auto dropped = [](const std::string& kernel, const std::string& softmax) {
    return Build(R"(net (float[2, 8, 8] x) => (float[2, 8, 8] y)
        < float[8, 8, )" +
                     kernel + R"(] w = ["location": "none"] > {
      n = )" + softmax +
                     R"( (x) v = MatMul (n, x) ["/c/T"] t = Transpose <perm = [0, 2, 1]> (v)
      ["/c/p/Conv"] c = Conv <kernel_shape = [)" +
                     kernel + R"(], pads = [)" + (kernel == "1" ? "0, 0" : "1, 1") + R"(]> (t, w)
      ["/c/T_1"] d = Transpose <perm = [0, 2, 1]> (c) ["/Add"] y = Add (x, d) })",
                 {.dropout = 0.1})
        .program.calls;
  };
  const auto count = [&](const std::string& kernel, const std::string& softmax) {
    return std::ranges::count(dropped(kernel, softmax), "dropout", &AtenCall::op);
  };
  CHECK(count("1", "Softmax") == count("3", "Softmax") + 1);
  CHECK(count("1", "Relu") == 0);
}

TEST_CASE("dropouts of places, by the names of nodes, modules and their own") {
  const std::string body =
      R"(["/m/a/MatMul"] q = MatMul (e, "onnx::MatMul_1") ["/m/a/Softmax"] w = Softmax (q)
         ["/m/l/fc/MatMul"] f = MatMul (w, "onnx::MatMul_2") ["/m/l/Add"] y = Add (w, f))";
  const auto dropped = [&](std::optional<double> everywhere, std::vector<PlacedDropout> placed) {
    return Dropped(body, {.dropout = everywhere, .placed_dropouts = std::move(placed)});
  };
  CHECK(dropped(std::nullopt, {}) == "e in m/dropout/ f in m/l/dropout/ ");
  CHECK(dropped(std::nullopt, {{"m.l", 0}}) == "e in m/dropout/ ");
  CHECK(dropped(0, {{"/m/l/Add", 0.1}}) == "f in m/l/dropout/ ");
  CHECK(dropped(0, {{"m.dropout", 0.1}}) == "e in m/dropout/ ");
  CHECK(dropped(0.1, {{"*", 0}, {"m.l", 0.1}}) == "f in m/l/dropout/ ");
  CHECK_THROWS_WITH_AS(dropped(0, {{"head", 0.1}}),
                       "<text>: --dropout: expected names of lost dropouts, their nodes or "
                       "modules (/m/a/MatMul, m.a, m.dropout …), found 'head'",
                       Error);
  CHECK(Dropped(body, {.mode = Mode::kEval, .placed_dropouts = {{"head", 0.1}}}).empty());
}

TEST_CASE("without attention to words nothing drops out unless it is told to") {
  const std::string branch =
      R"(["/m/l/fc/MatMul"] f = MatMul (n, "onnx::MatMul_1") ["/m/l/Add"] y = Add (n, f))";
  CHECK(Dropped("n = Softmax (e) " + branch) == "e in m/dropout/ f in m/l/dropout/ ");
  CHECK(Dropped("[\"/m/Mul\"] n = Mul (e, e) " + branch).empty());
  CHECK(Dropped("w = Softmax (e) n = Cos (w) " + branch).empty());
  CHECK(Dropped("n = Cos (e) " + branch, {.dropout = 0.1}) == "e in m/dropout/ f in m/l/dropout/ ");
  CHECK(Dropped("p = Constant <value = float {0.1}> () d = Dropout (e, p) n = Neg (d) " + branch) ==
        "e in m/ ");  // a training export: what is not there was not there
  const std::string unfolded = "[\"/m/l/fc/Transpose\"] t = Transpose <perm = [1, 0]> (\"m.wpe\") ";
  CHECK(Dropped(unfolded + "n = Softmax (e) " + branch).empty());  // do_constant_folding=False
  CHECK(Dropped(unfolded + "n = Softmax (e) " + branch, {.dropout = 0.1}) ==
        "e in m/dropout/ f in m/l/dropout/ ");
}

TEST_CASE("where a writer names its dropouts, no other is guessed") {
  const std::string words = R"(["/m/Add"] h = Add (e, "m.wpe") ["/m/Neg"] n = Neg (h) )";
  CHECK(Dropped(words + R"(["/m/Add_1"] y = Add (h, n))", {.dropout = 0.1}).starts_with("h in "));
  CHECK(Dropped(words + R"("p2o.pd_op.dropout.0.0" = Identity (n)
                           ["/m/Add_1"] y = Add (h, "p2o.pd_op.dropout.0.0"))",
                {.dropout = 0.1})
            .starts_with("n in "));
}

// Two dropouts of a network without attention, whose modules are of `classes`.
Program DroppedIn(const std::string& classes, const TrainingSettings& settings = {}) {
  static const std::string says[] = {FxText("h", "relu.default", "%x"),
                                     FxText("k", "relu.default", "%clone"),
                                     FxText("y", "relu.default", "%clone_1")};
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y)
      < float[8] w = ["location": "none"] > { h = Mul (x, w) k = Relu (h) y = Relu (k) })");
  for (NodeId node = 0; node < 3; ++node) {
    Say(graph, node, says[node]);
    graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'm', 'op']");
    graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
  }
  return Build(graph, settings).program;
}

// What is dropped out of a block that reads words, in a file of torch.export's by that PyTorch.
std::string DroppedIfBy(const std::string& torch, const TrainingSettings& settings = {}) {
  struct Said {
    std::string text, scopes;
  };
  static const Said kSays[] = {
      {FxText("e", "embedding.default", "%wte, %ids"), "['', 'm', 'm.wte', 'embedding']"},
      {FxText("n", "softmax.int", "%e, -1"), "['', 'm', 'softmax']"},
      {FxText("f", "linear.default", "%n, %w"), "['', 'm', 'm.l', 'm.l.fc', 'linear']"},
      {FxText("y", "add.Tensor", "%n, %f"), "['', 'm', 'm.l', 'add']"}};
  Graph graph = ParseGraph(R"(net (int64[2, 3] ids) => (float[2, 3, 8] y)
      < float[9, 8] "m.wte.weight" = ["location": "none"],
        float[8, 8] "val_1" = ["location": "none"] > {
        e = Gather ("m.wte.weight", ids) n = Softmax (e) f = MatMul (n, "val_1")
        y = Add (n, f) })");
  graph.torch = torch;
  for (NodeId node = 0; node < 4; ++node) {
    Say(graph, node, kSays[node].text);
    graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.name_scopes",
                                                   kSays[node].scopes);
  }
  std::string found;
  for (const AtenCall& call : Build(graph, settings).program.calls) {
    if (call.op == "dropout") found += "d";
  }
  return found;
}

TEST_CASE("torch.export's exporter shows dropouts in PyTorch 2.11, and no longer in 2.15") {
  CHECK(DroppedIfBy("2.15.0+cu132") == "dd");
  CHECK(DroppedIfBy("2.15.0+cu132", {.dropout = 0}).empty());
  CHECK(DroppedIfBy("2.11.0+cu130").empty());  // it would call what a node was given "%clone"
  CHECK(DroppedIfBy("").empty());
}

TEST_CASE("dropouts of a library that makes them with p = 0 stay lost") {
  const auto dropouts = [](const Program& program) {
    return std::ranges::count(program.calls, "dropout", &AtenCall::op);
  };
  const std::string own = "['__main__.Net', '__main__.Block', 'aten.relu.default']";
  const std::string timm = "['__main__.Net', 'timm.layers.mlp.Mlp', 'aten.relu.default']";
  CHECK(dropouts(DroppedIn(own)) == 2);
  CHECK(std::ranges::count(DroppedIn(own).doubts, Doubt::kDropout) == 1);
  const Program lost = DroppedIn(timm);
  CHECK(dropouts(lost) == 0);
  CHECK(std::ranges::count(lost.doubts, Doubt::kDropout) == 0);
  CHECK(std::ranges::count(lost.assumptions,
                           "2 dropouts of a library that makes them with p = 0 are taken to be so "
                           "(--dropout 0.1, if yours drop out)") == 1);
  CHECK(dropouts(DroppedIn(timm, {.dropout = 0.1})) == 2);
}

TEST_CASE("the innermost class that is not torch's own says whose dropout it is") {
  const std::string weights = "transformers.models.mobilebert.modeling_mobilebert.Attention";
  CHECK(NeverDropsOut({"timm.models.convnext.ConvNeXt", "torch.nn.modules.container.Sequential"},
                      false));
  CHECK_FALSE(NeverDropsOut({"timm.models.convnext.ConvNeXt", "__main__.Head"}, false));
  CHECK_FALSE(NeverDropsOut({}, false));
  CHECK(NeverDropsOut({weights}, /*weighs=*/false));
  CHECK_FALSE(NeverDropsOut({weights}, /*weighs=*/true));
}

// Attention written by hand over `x`, with what stands in front of it.
std::optional<bool> Likely(const std::string& inputs, const std::string& before) {
  const PreparedRun built = Build("net (" + inputs + R"() => (float[2, 3, 8] y)
      < float[9, 8] "m.wte.weight" = ["location": "none"],
        float[3, 8] "m.wpe" = ["location": "none"] > {)" +
                                      before + R"( t = Transpose <perm = [0, 2, 1]> (x)
          s = MatMul (x, t) w = Softmax (s) y = MatMul (w, x) })",
                                  {.loss = Loss::kNone});
  return LikelyDropsOut(built.file->findings->bound, built.file->findings->rewrites);
}

TEST_CASE("which models with attention likely drop out") {
  const std::string words = R"(e = Gather ("m.wte.weight", ids) )";
  CHECK(Likely("int64[2, 3] ids", words + R"(x = Add (e, "m.wpe"))") == true);
  CHECK(Likely("int64[2, 3] ids", words + R"(c = Cos ("m.wpe") x = Mul (e, c))") == false);
  CHECK(Likely("float[2, 3, 8] pixels", "x = Relu (pixels)") == false);
  CHECK(LikelyDropsOut(BoundModel(ParseGraph(kTwoLayers)).bound, {}) == std::nullopt);
}

}  // namespace
}  // namespace onnxfit::lost_dropouts_test

#include "estimator/lost/places.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "estimator/base/index.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::places_test {
namespace {

Places PlacesOf(const BoundModel& model, const TrainingSettings& settings) {
  return {model.bound, model.found.bodies, model.found.in_place, settings};
}

TEST_CASE("whether a line of source writes over an operand") {
  struct Row {
    const char* trace;
    const char* line;
    std::optional<bool> in_place;
  };
  const Row rows[] = {
      {"", "", std::nullopt},
      {"File \"a.py\", line 3, in forward\n    out += identity", "out += identity", true},
      {"File \"a.py\", line 3, in forward\n    x = x.add_(y)\n", "x = x.add_(y)", true},
      {"File \"a.py\", line 3, in forward\n    return self.f(x) + x", "return self.f(x) + x",
       false},
      {"  File \"a.py\", line 3, in forward\n    x += f(x)\n  File \"b.py\", line 9, in forward\n"
       "    return a + b\n",
       "return a + b", false},
      {"File \"a.py\", line 3, in forward", "", std::nullopt},
      {"File \"a.py\", line 3, in forward\n  x = F.relu(x)", "x = F.relu(x)", false},
      {"File \"a.py\", line 3, in forward\n  x = F.relu_(x)", "x = F.relu_(x)", true},
      {"File \"a.py\", line 3, in forward\n  x.masked_fill_(m, 0)", "x.masked_fill_(m, 0)", true},
      {"File \"a.py\", line 3, in forward\n  x = F.relu(x, True)", "x = F.relu(x, True)",
       std::nullopt},
      {"File \"a.py\", line 3, in forward\n  x = F.relu(x, inplace=True)",
       "x = F.relu(x, inplace=True)", true},
      {"File \"a.py\", line 3, in forward\n  return x.relu_() if self.inplace else x.relu()",
       "return x.relu_() if self.inplace else x.relu()", std::nullopt},
      {"File \"a.py\", line 3, in forward\n  return F.relu(input, inplace=self.inplace)",
       "return F.relu(input, inplace=self.inplace)", std::nullopt},
  };
  for (const Row& row : rows) {
    CAPTURE(row.trace);
    Node node;
    node.metadata = {{"pkg.torch.onnx.stack_trace", row.trace}};
    Graph graph;
    graph.nodes.push_back(std::move(node));
    const std::string_view line = ReadExporterMetadata(graph).LinesOf(0).innermost;
    CHECK(line == row.line);
    CHECK((WrittenInPlace(line) == row.in_place));
  }
}

size_t Found(const std::string& body) {
  const Graph graph = ParseGraph("n (float[4] x) => (float[4] y) { " + body + " }");
  return FindOutOfPlaceActivations(graph, ReadExporterMetadata(graph)).size();
}

TEST_CASE("torchvision's SqueezeExcitation is known by its children") {
  CHECK(Found(R"(["/m/se/fc1/Neg"] a = Neg (x) ["/m/se/activation/Relu"] b = Relu (a)
                 ["/m/se/scale_activation/Sigmoid"] y = Sigmoid (b))") == 1);
  CHECK(Found(R"(["/m/block.1/activation/Relu"] b = Relu (x)
                 ["/m/block.1/scale_activation/Sigmoid"] y = Sigmoid (b))") == 1);
  CHECK(Found(R"(["/m/a/activation/Relu"] b = Relu (x)
                 ["/m/b/scale_activation/Sigmoid"] y = Sigmoid (b))") == 0);
  CHECK(Found(R"(["/m/se/activation/Elu"] b = Elu (x)
                 ["/m/se/scale_activation/Sigmoid"] y = Sigmoid (b))") == 0);
  CHECK(Found(R"(["/m/activation/Relu"] y = Relu (x))") == 0);
}

TEST_CASE("libraries are known that make activations without arguments") {
  const auto found = [](const char* caller, const char* module) {
    Graph graph = ParseGraph("n (float[4] x) => (float[4] y) { y = Relu (x) }");
    const std::string classes =
        fmt::format("['', '{}', '{}', 'aten.relu.default']", caller, module);
    graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
    return FindOutOfPlaceActivations(graph, ReadExporterMetadata(graph)).size();
  };
  constexpr char kRelu[] = "torch.nn.modules.activation.ReLU";
  CHECK(found("diffusers.models.resnet.ResnetBlock2D", kRelu) == 1);
  CHECK(found("transformers.models.opt.modeling_opt.OPTDecoderLayer", kRelu) == 1);
  CHECK(found("torchvision.models.resnet.BasicBlock", kRelu) == 0);
  CHECK(found("timm.models.cspnet.BottleneckBlock", kRelu) == 1);
  CHECK(found("timm.layers.squeeze_excite.SEModule", kRelu) == 0);
  CHECK(found("timm.layers.squeeze_excite.SEModule", "timm.layers.activations.Sigmoid") == 1);
  CHECK(found("diffusers.models.resnet.ResnetBlock2D", "mine.Activation") == 0);
}

// "NODE: yes" a line, of what is known.
std::string KnownInPlace(const Graph& graph) {
  std::string text = "\n";
  for (const auto& [node, in_place] : FindKnownInPlace(graph, ReadExporterMetadata(graph))) {
    text += fmt::format("{}: {}\n", graph.nodes[Index(node)].name, in_place ? "yes" : "no");
  }
  return text;
}

std::string KnownInPlace(const std::string& body) {
  return KnownInPlace(ParseGraph("n (float[4] x) => (float[4] y) { " + body + " }"));
}

TEST_CASE("torchvision's ResNet is known by its children") {
  constexpr char kBlock[] = R"(
    ["/conv1/Neg"] a = Neg (x) ["/relu/Relu"] b = Relu (a) ["/maxpool/Neg"] c = Neg (b)
    ["/layer1/layer1.0/relu/Relu"] d = Relu (c) ["/layer1/layer1.0/Add"] e = Add (d, c)
    ["/layer1/layer1.0/relu_1/Relu"] f = Relu (e) ["/head/Relu"] g = Relu (f)
    ["/head/Add"] y = Add (g, g))";
  const std::string known = R"(
/relu/Relu: yes
/layer1/layer1.0/relu/Relu: yes
/layer1/layer1.0/Add: yes
/layer1/layer1.0/relu_1/Relu: yes
)";
  CHECK(KnownInPlace(kBlock) == known);
  std::string other = kBlock;  // whose stem has no maxpool
  other.replace(other.find("/maxpool/Neg"), 12, "/stempool/Neg");
  CHECK(KnownInPlace(other) == "\n");
}

TEST_CASE("heads and blocks of libraries write in place or not, as their children tell") {
  struct Row {
    const char* body;
    const char* known;
  };
  const Row rows[] = {
      {R"(["/m/backbone/Neg"] a = Neg (x) ["/m/classifier/classifier.1/Relu"] y = Relu (a))",
       "\n/m/classifier/classifier.1/Relu: no\n"},
      {R"(["/m/backbone/Neg"] a = Neg (x) ["/m/classifier/cbr/cbr.2/Relu"] y = Relu (a))",
       "\n/m/classifier/cbr/cbr.2/Relu: yes\n"},
      {R"(["/pos_block.0/proj/proj.0/Neg"] a = Neg (x) ["/pos_block.0/Add"] y = Add (a, x))",
       "\n/pos_block.0/Add: yes\n"},
      {R"(["/m/f1/Neg"] a = Neg (x) ["/m/f2/Neg"] b = Neg (x) ["/m/act/Relu"] c = Relu (a)
          ["/m/dwconv2/Add"] y = Add (b, c))",
       "\n/m/act/Relu: no\n"},
      {R"(["/m/primary_conv/Neg"] a = Neg (x) ["/m/cheap_operation/Neg"] b = Neg (a)
          ["/m/fusion_bn.0/Neg"] c = Neg (a) ["/m/Add"] y = Add (b, c))",
       "\n/m/Add: no\n"},
      {R"(["/stages.0/blocks.0/mhca/Neg"] a = Neg (x) ["/stem/act/Relu"] y = Relu (a))",
       "\n/stem/act/Relu: yes\n"},
      {R"(["/m/norm1/Neg"] a = Neg (x) ["/m/norm1/activation/Relu"] b = Relu (a)
          ["/m/norm3/Neg"] c = Neg (b) ["/m/conv3/Neg"] y = Neg (c))",
       "\n/m/norm1/activation/Relu: no\n"},
  };
  for (const Row& row : rows) CHECK(KnownInPlace(row.body) == row.known);
}

TEST_CASE("torchvision's Sequentials of activations are known by what is beside them") {
  CHECK(KnownInPlace(R"(["/m/features/features.0/Neg"] a = Neg (x)
                        ["/m/features/features.1/Relu"] b = Relu (a)
                        ["/m/avgpool/Neg"] c = Neg (b)
                        ["/m/classifier/classifier.1/Relu"] y = Relu (c))") == R"(
/m/features/features.1/Relu: yes
/m/classifier/classifier.1/Relu: yes
)");
  CHECK(KnownInPlace(R"(["/m/features/features.0/Neg"] a = Neg (x)
                        ["/m/features/features.1/Relu"] b = Relu (a)
                        ["/m/classifier/classifier.1/Relu"] y = Relu (b))") == "\n");
  CHECK(KnownInPlace(R"(["/features/features.0/features.0.0/Neg"] a = Neg (x)
                        ["/features/features.0/features.0.2/Relu"] b = Relu (a)
                        ["/features/features.1/conv/conv.0/conv.0.2/Relu"] c = Relu (b)
                        ["/features/features.1/Add"] y = Add (c, a))") == R"(
/features/features.0/features.0.2/Relu: yes
/features/features.1/conv/conv.0/conv.0.2/Relu: yes
/features/features.1/Add: no
)");
}

TEST_CASE("torch.export names the class that holds an activation") {
  const auto known = [](const char* classes) {
    Graph graph = ParseGraph(R"(n (float[4] x) => (float[4] y) { ["relu"] y = Relu (x) })");
    graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.class_hierarchy", classes);
    return KnownInPlace(graph) == "\nrelu: yes\n";
  };
  CHECK(
      known("['', 'torchvision.models.vgg.VGG', 'torch.nn.modules.container.Sequential', "
            "'torch.nn.modules.activation.ReLU', 'aten.relu.default']"));
  CHECK(
      known("['', 'timm.layers.norm_act.BatchNormAct2d', 'torch.nn.modules.activation.ReLU', "
            "'aten.relu.default']"));
  // timm's Mlp is told its activation by the block that makes it.
  CHECK(
      known("['', 'timm.models.nextvit.NextConvBlock', 'timm.layers.mlp.ConvMlp', "
            "'torch.nn.modules.activation.ReLU', 'aten.relu.default']"));
  CHECK_FALSE(
      known("['', 'timm.models.vgg.VGG', 'timm.layers.mlp.ConvMlp', "
            "'torch.nn.modules.activation.ReLU', 'aten.relu.default']"));
  CHECK_FALSE(
      known("['', '__main__.Net', 'torch.nn.modules.activation.ReLU', "
            "'aten.relu.default']"));
  CHECK_FALSE(
      known("['', 'torchvision.models.segmentation.fcn.FCNHead', "
            "'torch.nn.modules.activation.ReLU', 'aten.relu.default']"));
  CHECK_FALSE(known("['', 'torchvision.models.vgg.VGG', 'aten.relu.default']"));
}

// CenterNet's "torch.clamp(x.sigmoid_(), …)".
TEST_CASE("of two calls in a line only the one that is spelled so writes in place") {
  const auto in_place = [](const char* line, NodeId node) {
    Graph graph = ParseGraph(R"(n (float[4] x) => (float[4] y) {
      a = Sigmoid (x) y = Clip (a)
    })");
    const std::string trace = fmt::format("File \"a.py\", line 3, in forward\n  {}", line);
    const std::string texts[] = {FxText("sigmoid", "sigmoid.default", "%x"),
                                 FxText("clamp", "clamp.default", "%sigmoid, 0.1, 0.9")};
    for (NodeId i = 0; i < 2; ++i) {
      graph.nodes[Index(i)].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
      Say(graph, i, texts[i]);
    }
    const BoundModel model(std::move(graph));
    return FindInPlace(model.bound, {})[Index(node)] == true;
  };
  CHECK(in_place("y = torch.clamp(x.sigmoid_(), min=0.1, max=0.9)", 0));
  CHECK_FALSE(in_place("y = torch.clamp(x.sigmoid_(), min=0.1, max=0.9)", 1));
  CHECK_FALSE(in_place("y = x.sigmoid().clamp_(0.1, 0.9)", 0));
  CHECK(in_place("y = x.sigmoid().clamp_(0.1, 0.9)", 1));
  CHECK(in_place("x *= clamp(sigmoid_(x), 0.1, 0.9)", 0));
}

// Its ReLU could write over its input, and does not.
TEST_CASE("what is known not to work in place does not") {
  const auto trace = [](const std::string& module) {
    return TraceText(R"(n (float[8, 4, 9] x) => (float[8, 4, 9] y)
                        < float[4, 4, 1] w = ["location": "none"] > {
                          ["/se/fc/Conv"] a = Conv (x, w) ["/se/)" +
                         module + R"("] b = Relu (a)
                          ["/se/scale_activation/Sigmoid"] y = Sigmoid (b) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("activation/Relu").find("+b:1152") != std::string::npos);
  CHECK(trace("other/Relu").find("+b:1152") == std::string::npos);
}

TEST_CASE("a sum of what two gathers picked is written in place") {
  const auto summed = [](const std::string& body) {
    return FindInPlaceSums(ParseGraph(R"(n (float[2, 2] x, int64[2, 2] i) => (float[2, 2] y) {
        two = Constant <value = float {2}> ()
        g = GatherElements (x, i) h = GatherElements (x, i) )" +
                                      body + " }"));
  };
  CHECK(summed("a = Div (g, two) t = Transpose (h) b = Div (t, two) y = Add (a, b)") ==
        std::set<NodeId>{6});
  CHECK(summed("y = Add (g, x)").empty());
  CHECK(summed("y = Mul (g, h)").empty());
  CHECK(summed("r = Relu (h) y = Add (g, r)").empty());
  // Behind five nodes it is found, behind six not.
  const std::string five =
      "a = Cast <to = 1> (h) b = Transpose (a) c = Transpose (b) d = Div (c, two) e = Mul (d, "
      "two) ";
  CHECK(summed(five + "y = Add (g, e)") == std::set<NodeId>{8});
  CHECK(summed(five + "f = Add (e, two) y = Add (g, f)").empty());
}

TEST_CASE("sums with what was resized and leaky activations work out of place") {
  const Graph graph =
      ParseGraph(R"(n (float[1, 4, 4, 4] x, float[1, 4, 2, 2] t) => (float[1, 4, 4, 4] y)
      < float[4, 4, 1, 1] w = ["location": "none"] > {
        s = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> () ["/c/Conv"] c = Conv (x, w)
        ["/a/LeakyRelu"] a = LeakyRelu (c) r = Resize (t, , s) ["/Add"] b = Add (a, r)
        ["/e/Conv"] e = Conv (b, w) ["/f/Relu"] f = Relu (e) ["/Add_1"] y = Add (e, f) })");
  const BoundModel model(graph);
  CHECK(PlacesOf(model, {}).Of(2).written_in_place == false);
  CHECK(PlacesOf(model, {}).Of(4).written_in_place == false);
  CHECK(!PlacesOf(model, {}).Of(6).written_in_place.has_value());
}

TEST_CASE("positions are added in place to what was joined to a token of that name") {
  const auto summed = [](const std::string& token, const std::string& add) {
    return FindInPlaceSums(ParseGraph(R"(n (float[2, 2, 4] x) => (float[2, 3, 4] y)
        < float[2, 1, 4] )" + token + R"( = ["location": "none"],
          float[1, 3, 4] pos_embedding = ["location": "none"] > {
        c = Concat <axis = 1> ()" + token +
                                      R"(, x) [")" + add + R"("] y = Add (c, pos_embedding) })"));
  };
  CHECK(summed("cls_token", "/Add") == std::set<NodeId>{1});
  CHECK(summed("cls_token", "add").empty());  // lines tell
  CHECK(summed("class_token", "/Add").empty());
}

TEST_CASE("a flag says that such a sum is not written in place") {
  const Graph graph = ParseGraph(R"(n (float[2, 2] x, int64[2, 2] i) => (float[2, 2] y) {
      g = GatherElements (x, i) h = GatherElements (x, i) [sum] y = Add (g, h) })");
  const BoundModel model(graph);
  CHECK(PlacesOf(model, {}).Of(2).written_in_place == true);
  CHECK(PlacesOf(model, {.out_of_place = {"sum"}}).Of(2).written_in_place == false);
}

// F.relu (h) in a forward; nn.ReLU may be told to work in place.
TEST_CASE("activations that are functions work out of place") {
  const auto trace = [](const std::string& node) {
    return TraceText(R"(n (float[8, 4, 9] x) => (float[8, 4, 9] y)
                        < float[4, 4, 1] w = ["location": "none"] > {
                          ["/fc/Conv"] h = Conv (x, w)
                          [")" +
                         node + R"("] r = Relu (h) ["/Neg"] y = Neg (r) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("/Relu").find("+r:1152") != std::string::npos);
  CHECK(trace("/act/Relu").find("+r:1152") == std::string::npos);
}

TEST_CASE("sums of products are made anew, and so is what begins a module") {
  const auto trace = [](const std::string& body) {
    return TraceText(R"(n (float[8, 4, 9] x) => (float[8, 4, 9] y)
                        < float[4, 4, 1] w = ["location": "none"] > {
                          two = Constant <value = float {2.0}> ()
                          ["/fc/Conv"] h = Conv (x, w) )" +
                         body + " }",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace(R"(["/Mul"] r = Mul (h, two) ["/Add"] s = Add (r, x) ["/Neg"] y = Neg (s))")
            .find("+s:1152") != std::string::npos);
  CHECK(trace(R"(["/n/Neg"] r = Neg (h) ["/Add"] s = Add (r, x) ["/Neg"] y = Neg (s))")
            .find("+s:1152") == std::string::npos);
  CHECK(trace(R"(["/n/Neg"] r = Neg (h) ["/Add"] s = Add (r, x)
                 ["/Transpose"] u = Transpose <perm = [0, 2, 1]> (s)
                 ["/Transpose_1"] v = Transpose <perm = [0, 2, 1]> (x)
                 ["/Add_1"] t = Add (u, v) ["/Transpose_2"] y = Transpose <perm = [0, 2, 1]> (t))")
            .find("+s:1152") != std::string::npos);
  CHECK(trace(R"(["/n/Neg"] r = Neg (h) ["/Add"] s = Add (r, x) ["/Add_1"] t = Add (s, x)
                 ["/Neg"] y = Neg (t))")
            .find("+t:1152") != std::string::npos);
  CHECK(trace(R"(["/m/act/Relu"] r = Relu (h) ["/m/n/Neg"] y = Neg (r))").find("+r:1152") !=
        std::string::npos);
  CHECK(trace(R"(["/m/n/Neg"] n = Neg (h) ["/m/act/Relu"] r = Relu (n) ["/m/n_1/Neg"] y = Neg (r))")
            .find("+r:1152") == std::string::npos);
}

TEST_CASE("timm's stages of blocks and torchvision's DenseNet are known by their children") {
  const auto known = [](const std::string& inner) {
    return KnownInPlace(R"(["/stages/stages.0/stages.0.0/)" + inner + R"(/Neg"] a = Neg (x)
                           ["/stages/stages.0/stages.0.0/Add"] b = Add (a, x)
                           ["/head/global_pool/Neg"] y = Neg (b))");
  };
  CHECK(known("conv1") == "\n/stages/stages.0/stages.0.0/Add: no\n");
  CHECK(KnownInPlace(R"(["/features/denseblock1/Neg"] a = Neg (x) ["/Relu"] b = Relu (a)
                        ["/classifier/Neg"] y = Neg (b))") == "\n/Relu: yes\n");
}

// Sigmoid keeps its result in training.
TEST_CASE("timm's ResBottleneck makes its last activation anew") {
  const auto known =
      [](const std::string& block) {
        return KnownInPlace(ParseGraph(R"(n (float[4] x) => (float[4] y) {
        ["/stages/stages.0/blocks/)" + block +
                                       R"(/Relu"] a = Relu (x)
        ["/head/global_pool/Neg"] y = Neg (a) })"));
      };
  CHECK(known("blocks.0/act3") == "\n/stages/stages.0/blocks/blocks.0/act3/Relu: no\n");
  CHECK(known("blocks.0/act1") == "\n");
}

TEST_CASE("inference writes over what training can, and nothing else") {
  const auto trace = [](const std::string& op) {
    return TraceText(R"(n (float[8, 4, 9] x) => (float[8, 4, 9] y)
                        < float[4, 4, 1] w = ["location": "none"] > {
                          h = Conv (x, w) s = )" +
                         op + R"( (h) y = Relu (s) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("Sigmoid").find("+y:1152") != std::string::npos);
  CHECK(trace("Neg").find("+y:1152") == std::string::npos);
}

TEST_CASE("perceptrons' activations work out of place, beside convolutions they need not") {
  const auto trace = [](const std::string& first) {
    return TraceText(R"(n (float[8, 4, 9] x) => (float[8, 4, 9] y)
                        < float[4, 4, 1] w = ["location": "none"] > {
                          h = )" +
                         first + R"( s = Neg (h) y = Relu (s) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("Neg (x)").find("+y:1152") != std::string::npos);
  CHECK(trace("Conv (x, w)").find("+y:1152") == std::string::npos);
}

// Autocast keeps a cast of it, in place of `h`; "h += f(h)" would still be refused in fp32.
TEST_CASE("no sum is written over what was read before") {
  const auto trace = [](const std::string& summed) {
    return TraceText(R"(n (float[8, 4] x) => (float[8, 4] y)
                        < float[4, 4] w = ["location": "none"], float[4] b = ["location": "none"] > {
                          h = Add (x, b) g = MatMul (h, w) n = Neg (b) k = Sub (x, n) y = Add ()" +
                         summed + ") }",
                     {.precision = Precision::kAmpBf16, .mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("h, g").find("+y:128") != std::string::npos);
  CHECK(trace("k, g").find("+y:128") == std::string::npos);
}

TEST_CASE("models with attention write over nothing") {
  const auto trace = [](const std::string& weighs) {
    return TraceText(R"(n (float[8, 4, 4] x) => (float[8, 4, 4] y) {
                          w = Softmax (x) v = )" +
                         weighs + R"( a = Neg (v) [sum] y = Add (a, x) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("MatMul (w, x)").find("+y:512") != std::string::npos);
  CHECK(trace(R"(Einsum <equation = "bij,bjk->bik"> (w, x))").find("+y:512") != std::string::npos);
  CHECK(trace("Neg (w)").find("+y:512") == std::string::npos);
}

TEST_CASE("modules tell by their children what is written in place") {
  const auto trace = [](const std::string& child) {
    return TraceText(R"(n (float[1, 3, 8, 8] x) => (float[1, 4, 8, 8] y)
                        < float[4, 3, 1, 1] w = ["location": "none"] > {
                          ["/m/branches.0/branches.0.0/Neg"] a = Neg (x)
                          ["/m/Conv"] c = Conv (a, w) ["/m/)" +
                         child + R"(/Relu"] r = Relu (c) ["/Exp"] y = Exp (r) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("fuse_act").find("+r:1024") != std::string::npos);
  CHECK(trace("act").find("+r:1024") == std::string::npos);
}

TEST_CASE("a batch norm's own activation writes over it, even beside attention") {
  const auto trace = [](const std::string& node) {
    return TraceText(R"(n (float[8, 4, 4] x) => (float[8, 4, 4] y)
                        < float[4] "bn.weight" = ["location": "none"],
                          float[4] "bn.bias" = ["location": "none"],
                          float[4] "bn.running_mean" = ["location": "none"],
                          float[4] "bn.running_var" = ["location": "none"] > {
                          ["/bn/BatchNormalization"] b = BatchNormalization (x, "bn.weight",
                            "bn.bias", "bn.running_mean", "bn.running_var")
                          [")" +
                         node + R"("] r = Relu (b) w = Softmax (r) y = MatMul (w, r) })",
                     {.mode = Mode::kEval, .steps = 1});
  };
  CHECK(trace("/bn/act/Relu").find("+r:512") == std::string::npos);
  CHECK(trace("/act/Relu").find("+r:512") != std::string::npos);
}

}  // namespace
}  // namespace onnxfit::places_test

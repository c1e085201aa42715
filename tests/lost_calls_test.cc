#include "estimator/lost/lost_calls.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "estimator/exporters/exporter_metadata.h"
#include "tests/bound_model.h"
#include "tests/fx_text.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::lost_calls_test {
namespace {

std::vector<LostCall> CallsOf(const Graph& graph, const ExporterMetadata& metadata) {
  return FindLostCalls(graph, metadata, FindLostOperands(graph, metadata), {});
}

std::string Found(const Graph& graph) {
  std::string text;
  for (const LostCall& lost : CallsOf(graph, ReadExporterMetadata(graph))) {
    text += lost.name + ">" + std::string(graph.nodes[static_cast<size_t>(lost.before)].name) + " ";
  }
  return text;
}

TEST_CASE("a gap in a Sequential is a dropout that the export has lost") {
  struct Row {
    const char* name;
    const char* body;
    const char* found;
  };
  const Row rows[] = {
      {"nothing is missing", R"(["/net/head/head.0/Relu"] h = Relu (x)
                                ["/net/head/head.1/Neg"] y = Neg (h))",
       ""},
      {"one in the middle", R"(["/net/head/head.0/Relu"] h = Relu (x)
                               ["/net/head/head.2/Neg"] y = Neg (h))",
       "net.head.1>/net/head/head.2/Neg "},
      {"the first one", R"(["/net/Relu"] h = Relu (x) ["/net/head/head.1/Neg"] y = Neg (h))",
       "net.head.0>/net/head/head.1/Neg "},
      {"the same one in two layers", R"(["/net/a/mlp/mlp.1/Relu"] h = Relu (x)
                                        ["/net/b/mlp/mlp.1/Neg"] y = Neg (h))",
       "net.a.mlp.0>/net/a/mlp/mlp.1/Relu net.b.mlp.0>/net/b/mlp/mlp.1/Neg "},
      {"a module that is called again", R"(["/net/mlp/mlp.1/Relu"] h = Relu (x)
                                           ["/net/Exp"] e = Exp (h)
                                           ["/net/mlp/mlp.1/Relu_1"] y = Relu (e))",
       "net.mlp.0>/net/mlp/mlp.1/Relu net.mlp.0_1>/net/mlp/mlp.1/Relu_1 "},
      {"several nodes of one child", R"(["/net/head/head.0/Relu"] h = Relu (x)
                                        ["/net/head/head.0/Neg"] k = Neg (h)
                                        ["/net/head/head.1/Neg"] y = Neg (k))",
       ""},
      {"a Sequential that runs twice", R"(["/net/head/head.0/Relu"] h = Relu (x)
                                          ["/net/Neg"] k = Neg (h)
                                          ["/net/head/head.0/Relu_1"] y = Relu (k))",
       ""},
      {"a node without a place in between", R"(["/net/head/head.0/Relu"] h = Relu (x)
                                               k = Neg (h)
                                               ["/net/head/head.1/Neg"] y = Neg (k))",
       ""},
      {"numbers of a ModuleList are no Sequential",
       R"(["/net/blocks.3/Relu"] h = Relu (x) ["/net/blocks.7/Neg"] y = Neg (h))", ""},
      {"what a writer has kept as an Identity is one by its name",
       R"([a] "p2o.pd_op.dropout.0.0" = Identity (x) [b] h = Identity ("p2o.pd_op.dropout.0.0")
          [c] y = Neg (h))",
       "p2o.pd_op.dropout.0.0>a "},
      {"a file exported in training mode has its dropouts",
       R"(["/net/head/head.1/Relu"] h = Relu (x) ["/net/head/head.3/Dropout"] y = Dropout (h))",
       ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const std::string text =
        "net (float[2, 8] x) => (float[2, 8] y) { " + std::string(row.body) + " }";
    CHECK(Found(ParseGraph(text)) == row.found);
  }
}

// torch.export keeps one of two equal calls; the other stays as an operand.
TEST_CASE("a call equal to one that the file keeps runs again") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y) {
      [a] relu_1 = Relu (x) [b] neg = Neg (relu_1) [c] y = Add (neg, relu_1)
    })");
  const std::string says[] = {FxText("relu_1", "relu.default", "%x,"),
                              FxText("neg", "neg.default", "%relu_1,"),
                              FxText("y", "add.Tensor", "%neg, %relu_2")};
  for (NodeId node = 0; node < 3; ++node) Say(graph, node, says[node]);
  CHECK(Found(graph) == "relu_2>c ");
  CHECK(ToString(Build(graph, {.mode = Mode::kEval}).program) == R"(
%relu_1 = relu(%x)  # a
%neg = neg(%relu_1)  # b
%relu_2 = relu(%x)  # c
%y = add(%neg, %relu_2)  # c
)");
}

TEST_CASE("a call that runs again reads what was put back for the first") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y) {
      [a] h = Relu (x) [b] relu = Relu (h) [c] neg = Neg (relu) [d] y = Add (neg, relu)
    })");
  const std::string says[] = {
      FxText("h", "relu.default", "%x,"), FxText("relu", "relu.default", "%mul_1,"),
      FxText("neg", "neg.default", "%relu,"), FxText("y", "add.Tensor", "%neg, %relu_1")};
  for (NodeId node = 0; node < 4; ++node) Say(graph, node, says[node]);
  CHECK(ToString(Build(graph, {.mode = Mode::kEval}).program) == R"(
%h = relu(%x)  # a
%mul_1 = mul.Scalar(%h)  # a
%relu = relu(%mul_1)  # b
%neg = neg(%relu)  # c
%relu_1 = relu(%mul_1)  # d
%y = add(%neg, %relu_1)  # d
)");
}

// GPT-NeoX runs two norms on one input; new ones have equal weights.
TEST_CASE("a norm that was merged with one beside it has its own weights") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y)
      < float[8] "m.norm_1.weight" = ["location": "none"] > {
      ["/m/m.norm_1/N"] layer_norm = LayerNormalization (x, "m.norm_1.weight")
      ["/m/m.fc/N"] neg = Neg (layer_norm) ["/m/m.mlp/N"] relu = Relu (layer_norm)
      ["/m/A"] y = Add (neg, relu)
    })");
  graph.metadata.emplace_back("graph_signature",
                              "p_a: PARAMETER target='m.norm_1.weight'\n"
                              "p_b: PARAMETER target='m.norm_2.weight'\n");
  const std::string says[] = {FxText("layer_norm", "layer_norm.default", "%x, [8], %p_a"),
                              FxText("neg", "neg.default", "%layer_norm,"),
                              FxText("relu", "relu.default", "%layer_norm_1,"),
                              FxText("y", "add.Tensor", "%neg, %relu")};
  for (NodeId node = 0; node < 4; ++node) Say(graph, node, says[node]);
  const Program program = Build(graph, {.mode = Mode::kEval}).program;
  CHECK(ToString(program) == R"(
%layer_norm = layer_norm(%x, %m.norm_1.weight; 1)  # /m/m.norm_1/N
%neg = neg(%layer_norm)  # /m/m.fc/N
%layer_norm_1 = layer_norm(%x, %m.norm_2.weight; 1)  # /m/m.mlp/N
%relu = relu(%layer_norm_1)  # /m/m.mlp/N
%y = add(%neg, %relu)  # /m/A
)");
  CHECK(program.modules.NamesOf(program.calls[2].module) ==
        std::vector<std::string>{"m", "m.norm_2"});
}

// What is put back for an operand "%NAME" of `reader` that no node makes, and where.
TEST_CASE("operands that no node makes tell which call is gone") {
  struct Row {
    const char* name;
    const char* body;
    const char* operand;
    const char* call;
  };
  const Row rows[] = {
      {"a dropout behind a module", R"(["/m/out/fc/N"] h = Relu (x) ["/m/out/A"] y = Neg (h))",
       "clone", "dropout /m/out/clone"},
      {"one at a module's end", R"(["/m/attn/fc/N"] h = Relu (x) ["/m/A"] y = Neg (h))", "clone_7",
       "dropout /m/attn/clone_7"},
      {"one before a module", R"(["/m/pool/act/N"] h = Relu (x) ["/m/head/A"] y = Neg (h))",
       "clone", "dropout /m/clone"},
      {"one of embeddings", R"(["/m/embeddings/norm/N"] h = Relu (x) ["/m/fc/A"] y = Neg (h))",
       "clone", "dropout /m/embeddings/clone"},
      {"one of fairseq's layers",
       R"(["/m/m.0/self_attn/out_proj/N"] h = Relu (x) ["/m/m.0/A"] y = Neg (h))", "clone",
       "dropout /m/m.0/clone"},
      {"none before fc2 of a layer", R"(["/m/m.0/N"] h = Relu (x) ["/m/m.0/fc2/A"] y = Neg (h))",
       "clone", ""},
      {"one in a block of two", R"(["/m/mlp/N"] h = Relu (x) ["/m/mlp/fc2/A"] y = Neg (h))",
       "clone", "dropout /m/mlp/clone"},
      {"a copy of a view", R"(["/m/T"] h = Transpose (x) ["/m/A"] y = Neg (h))", "clone",
       "contiguous /m"},
      {"a copy of a part, in front of the next of a Sequential",
       R"(["/m/m.0/T"] h = Transpose (x) ["/m/m.1/A"] y = Neg (h))", "clone_2", "contiguous /m"},
      {"a dropout that stood between", R"(["/m/m.0/T"] h = Transpose (x) ["/m/m.2/A"] y = Neg (h))",
       "clone_2", "dropout /m/clone_2"},
      {"x + 0", R"(["/m/T"] h = Transpose (x) ["/m/a/A"] y = Neg (h))", "add_12", "add.Scalar /m"},
      {"x.detach()", R"(["/m/T"] h = Transpose (x) ["/m/a/A"] y = Neg (h))", "detach_1",
       "detach /m"},
      {"another call", R"(["/m/T"] h = Transpose (x) ["/m/A"] y = Neg (h))", "add_relu_1", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Graph graph =
        ParseGraph("net (float[2, 2] x) => (float[2, 2] y) { " + std::string(row.body) + " }");
    const std::string first = FxText("h", "relu.default", "%x,");
    const std::string reader = FxText("y", "neg.default", std::string("%").append(row.operand));
    Say(graph, 0, first);
    Say(graph, 1, reader);
    std::string found;
    const ExporterMetadata metadata = ReadExporterMetadata(graph);
    for (const LostCall& lost : CallsOf(graph, metadata)) {
      found += std::string(lost.op) + " ";
      for (const std::string& name : metadata.modules.NamesOf(lost.caller)) found += "/" + name;
      if (!lost.module.empty()) found += "/" + lost.module;
    }
    CHECK(found == row.call);
  }
}

// "x = x.permute(1, 0).contiguous()": the name is the copy's.
TEST_CASE("a copy that is spelled in the line of its view runs with it") {
  const auto behind = [](const char* line) {
    Graph graph = ParseGraph(R"(net (float[2, 2] x) => (float[2, 2] y) {
      ["/m/T"] h = Transpose (x) ["/m/A"] y = Neg (h) })");
    const std::string calls[] = {FxText("h", "permute.default", "%x,"),
                                 FxText("y", "neg.default", "%clone")};
    const std::string trace = fmt::format("File \"a.py\", line 3, in forward\n  {}", line);
    for (NodeId node = 0; node < 2; ++node) Say(graph, node, calls[node]);
    graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
    return CallsOf(graph, ReadExporterMetadata(graph))[0].behind;
  };
  CHECK(behind("x = x.permute(1, 0).contiguous()") == 0);
  CHECK(behind("x = x.permute(1, 0)") == kNoNode);
}

TEST_CASE("two operands that are gone are told apart") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y) {
      [a] h = Relu (x) [b] k = Neg (h) [c] y = Add (k, h)
    })");
  const std::string says[] = {FxText("h", "relu.default", "%x,"),
                              FxText("k", "neg.default", "%clone,"),
                              FxText("y", "add.Tensor", "%clone_1, %clone")};
  for (NodeId node = 0; node < 3; ++node) Say(graph, node, says[node]);
  CHECK(ToString(Build(graph, {.loss = Loss::kNone, .loss_output = "y"}).program).find(R"(
%h = relu(%x)  # a
%clone = dropout(%h)  # b
%k = neg(%clone)  # b
%clone_1 = dropout(%k)  # c
%y = add(%clone_1, %clone)  # c
)") == 0);
}

// x = norm(x + self.ff(x)), where ff ends with a dropout.
TEST_CASE("a dropout in the middle of a line is a part of it") {
  const auto line_of_dropout = [](const std::string& maker) {
    Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y) {
        ["/m/fc/N"] h = Relu (x) ["/m/A"] y = Add (x, h)
      })");
    const std::string says[] = {FxText("h", "relu.default", "%x,"),
                                FxText("y", "add.Tensor", "%x, %clone")};
    const std::string lines[] = {maker + "File \"linear.py\", line 3, in forward\n  return x\n",
                                 "File \"a.py\", line 7, in forward\n  x = norm(x + ff(x))\n"};
    for (NodeId node = 0; node < 2; ++node) {
      Say(graph, node, says[node]);
      graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.stack_trace", lines[node]);
    }
    const PreparedRun built = Build(graph, {.loss = Loss::kNone, .loss_output = "y"});
    const AtenCall& call = built.program.calls[1];
    CHECK(call.op == "dropout");
    return call.frames.empty() ? 0 : built.program.source.At(call.frames[0]).line;
  };
  CHECK(line_of_dropout("File \"a.py\", line 7, in forward\n  x = norm(x + ff(x))\n") == 7);
  CHECK(line_of_dropout("File \"a.py\", line 6, in forward\n  x = f(x)\n") == 0);
}

// w = softmax(s), w = drop(w), v = value(x), w @ v.
TEST_CASE("a dropout beside its maker runs on the line behind") {
  Graph graph = ParseGraph(R"(net (float[8, 8] x) => (float[8, 8] y) {
      ["/m/S"] w = Softmax (x) ["/m/N"] v = Neg (x) ["/m/M"] y = MatMul (w, v)
    })");
  const std::string says[] = {FxText("w", "softmax.int", "%x, -1"),
                              FxText("v", "neg.default", "%x,"),
                              FxText("y", "matmul.default", "%clone, %v")};
  for (NodeId node = 0; node < 3; ++node) Say(graph, node, says[node]);
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.stack_trace",
                                       "File \"a.py\", line 7, in forward\n  w = softmax(s)\n");
  const Program program =
      Build(graph, {.loss = Loss::kNone, .loss_output = "y", .dropout = 0.1}).program;
  REQUIRE(program.calls[1].op == "dropout");
  const SourceStatement& line = program.source.At(program.calls[1].frames[0]);
  CHECK(line.is_put_back);
  CHECK(line.line == 7);
  CHECK(line.targets == std::vector<std::string>{"w"});
  CHECK(program.calls[2].op == "neg");
}

TEST_CASE("a product with 1 runs at once, not before its reader") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y) {
      [a] h = Relu (x) [b] k = Neg (x) [c] y = Add (h, k)
    })");
  const std::string says[] = {FxText("h", "relu.default", "%x,"), FxText("k", "neg.default", "%x,"),
                              FxText("y", "add.Tensor", "%mul_3, %k")};
  for (NodeId node = 0; node < 3; ++node) Say(graph, node, says[node]);
  CHECK(ToString(Build(graph, {.mode = Mode::kEval}).program) == R"(
%h = relu(%x)  # a
%mul_3 = mul.Scalar(%h)  # a
%k = neg(%x)  # b
%y = add(%mul_3, %k)  # c
)");
}

// keys = torch.cat([empty, past]), with which transformers' caches begin.
TEST_CASE("a cache begins with copies of what it is given") {
  Graph graph = ParseGraph(R"(net (float[2, 3, 8] x, float[2, 5, 8] past) => (float[2, 8, 8] y) {
      [a] h = Relu (x) [b] y = Concat <axis = 1> (past, h)
    })");
  const std::string says[] = {FxText("h", "relu.default", "%x,"),
                              FxText("cat_4", "cat.default", "[%cat, %h], 1")};
  for (NodeId node = 0; node < 2; ++node) Say(graph, node, says[node]);
  CHECK(ToString(Build(graph, {.mode = Mode::kEval}).program) == R"(
%cat = cat(%past)  # b
%h = relu(%x)  # a
%y = cat(%cat, %h)  # b
)");
  Graph kept = ParseGraph(R"(net (float[2, 5, 8] past) => (float[2, 5, 8] y) {
      [a] c = Identity (past) [b] y = Relu (c)
    })");
  const std::string cat = FxText("c", "cat.default", "[%clone, %past], 1");
  Say(kept, 0, cat);
  CHECK(ToString(Build(kept, {.mode = Mode::kEval}).program) == R"(
%c = cat(%past)  # a
%y = relu(%c)  # b
)");
}

TEST_CASE("a cast of the exporter's does not run") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (double[8, 2] y) {
      [a] t = Transpose (x) [b] y = Cast <to = 11> (t)
    })");
  const std::string permute = FxText("t", "permute.default", "%x,");
  Say(graph, 0, permute);
  Say(graph, 1,
      "%y : [num_users=1] = call_function[target=torch.ops.prims.convert_element_type.default]("
      "args = (%t,), kwargs = {})");
  CHECK(ToString(Build(graph, {.mode = Mode::kEval}).program) == R"(
%t = permute(%x; 1, 0)  # a
)");
}

TEST_CASE("one value in two places is not told apart") {
  Graph graph = ParseGraph(
      R"(net (float[2, 8] x) => (float[2, 8] y) { relu = Relu (x) y = Add (relu, relu) })");
  const std::string says[] = {FxText("relu", "relu.default", "%x,"),
                              FxText("y", "add.Tensor", "%relu, %relu_1")};
  for (NodeId node = 0; node < 2; ++node) Say(graph, node, says[node]);
  CHECK(Found(graph).empty());
}

TEST_CASE("in eval torch.export leaves a dropout's result as an operand that no node makes") {
  const Graph graph = LoadGraph(std::string(kSourceDir) + "/models/gpt2.dynamo.onnx");
  std::set<std::string> dropouts;  // one has two readers
  for (const LostCall& lost : CallsOf(graph, ReadExporterMetadata(graph))) {
    if (lost.op == "dropout") dropouts.insert(lost.name);
  }
  CHECK(dropouts.size() == 25);  // as many as the module runs
}

TEST_CASE("a maximum that is taken off in front of an exponential has no history") {
  const auto calls = [](const std::string& body) {
    const Program program = Build(
                                "net (float[2, 8] x) => (float[2, 8] y) { axes = Constant <value "
                                "= int64[1] {-1}> () " +
                                    body + " }",
                                {.mode = Mode::kEval})
                                .program;
    std::string text;
    for (const AtenCall& call : program.calls) {
      text += std::string(call.op) + (call.leaves_autograd ? "- " : " ");
    }
    return text;
  };
  CHECK(calls(R"(["/ReduceMax"] m = ReduceMax (x, axes) ["/Sub"] s = Sub (x, m) y = Exp (s))") ==
        "amax view- sub exp ");
  CHECK(calls(R"(["/ReduceMax"] m = ReduceMax (x, axes) ["/Sub"] s = Sub (m, x) y = Exp (s))") ==
        "max.dim sub exp ");
  // Of another tensor, or in front of nothing that overflows, it is trained.
  CHECK(calls(R"(["/Neg"] n = Neg (x) ["/ReduceMax"] m = ReduceMax (n, axes)
                 ["/Sub"] s = Sub (x, m) y = Exp (s))") == "neg max.dim sub exp ");
  CHECK(calls(R"(["/ReduceMax"] m = ReduceMax (x, axes) ["/Sub"] s = Sub (x, m) y = Tanh (s))") ==
        "max.dim sub tanh ");
}

TEST_CASE("boxes that topk has chosen are detached in TorchScript's files") {
  const auto detached = [](const std::string& numbers, const std::string& node,
                           const std::string& reader = "/m/decoder/Neg") {
    const BoundModel model(ParseGraph("n (float[2, 9, " + numbers + R"(] x, float[2, 9] s) =>
        (float y) < int64[1] k = {3}, int64[1] axis = {2}, int64[3] times = {1, 1, )" +
                                      numbers +
                                      R"(} > {
          v, i = TopK <axis = 1> (s, k) u = Unsqueeze (i, axis) t = Tile (u, times)
          [)" + node + R"(] g = GatherElements <axis = 1> (x, t) [")" +
                                      reader + R"("] y = Neg (g) })"));
    return FindDetachedMaxima(model.bound).size();
  };
  CHECK(detached("4", "\"/m/GatherElements\"") == 1);
  CHECK(detached("8", "\"/m/GatherElements\"") == 0);  // features
  CHECK(detached("4", "node_gather") == 0);
  CHECK(detached("4", "\"/m/GatherElements\"", "/m/Neg") == 0);  // chosen for the answer
}

// y = a * b.detach() of b = relu(a), a = x * w, in each way that an export has it.
TEST_CASE("what is detached has no history, whether a node says so or its operand is gone") {
  const auto calls = [](const std::string& nodes, const std::vector<std::string>& texts) {
    Graph graph = ParseGraph(
        "net (float[4, 4] x) => (float[4, 4] y) "
        "< float[4, 4] w = [\"location\": \"none\"] > "
        "{ a = Mul (x, w) b = Relu (a) " +
        nodes + " }");
    for (size_t i = 0; i < texts.size(); ++i) Say(graph, static_cast<NodeId>(i), texts[i]);
    std::string text;
    for (const AtenCall& call : Build(graph, {.loss = Loss::kMse}).program.calls) {
      text += fmt::format("{}{} ", call.leaves_autograd ? "no_grad " : "", call.op);
    }
    return text;
  };
  const std::string a = FxText("a", "mul.Tensor", "%x, %p_w,");
  const std::string b = FxText("b", "relu.default", "%a,");
  const std::string y = FxText("y", "mul.Tensor", "%a, %detach");
  const std::string of_b = FxText("detach", "detach.default", "%b,");
  const std::string of_x = FxText("detach", "detach.default", "%x,");
  CHECK(calls("detach = Identity (b) y = Mul (a, detach)", {a, b, of_b, y})
            .starts_with("mul relu no_grad view mul "));
  CHECK(calls("y = Mul (a, b)", {a, b, y}).starts_with("mul relu no_grad view mul "));
  // Without a history there is nothing to leave.
  CHECK(
      calls("detach = Identity (x) y = Mul (a, detach)", {a, b, of_x, y}).starts_with("mul mul "));
  // Straight-through estimators.
  CHECK(calls("d = Sub (b, a) y = Add (a, d)", {}) == "mul relu sub no_grad view add mse_loss ");
  CHECK(calls("d = Sub (a, b) y = Add (a, d)", {}) == "mul relu sub add mse_loss ");
  CHECK(calls("d = Sub (b, a) e = Add (a, d) y = Mul (e, d)", {}) ==
        "mul relu sub add mul mse_loss ");
}

}  // namespace
}  // namespace onnxfit::lost_calls_test

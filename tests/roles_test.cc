#include "estimator/parameters/roles.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "tests/fx_text.h"
#include "tests/paths.h"
#include "tests/trace_helpers.h"

namespace onnxfit::roles_test {
namespace {

std::string Names(const std::vector<ModuleTensor>& tensors) {
  std::string text;
  for (const ModuleTensor& tensor : tensors) text += tensor.name + " ";
  return text;
}

std::string RolesText(std::string_view graph, const TrainingSettings& settings = {}) {
  const Roles roles = Build(graph, settings).roles;
  return "parameters " + Names(roles.parameters) + "buffers " + Names(roles.buffers);
}

TEST_CASE("what an initializer is to training") {
  struct Row {
    const char* name;
    const char* graph;
    const char* roles;
  };
  const Row rows[] = {
      {"weights and biases are parameters",
       R"(net (float[N, 4] x) => (float[N, 2] y)
          < float[2, 4] "fc.weight" = ["location": "none"], float[2] "fc.bias" = ["location": "none"] > {
            y = Gemm <transB = 1> (x, "fc.weight", "fc.bias")
          })",
       "parameters fc.weight fc.bias buffers "},
      {"a weight that two layers share is one parameter",
       R"(net (float[N, 4] x) => (float[N, 4] y) < float[4, 4] w = ["location": "none"] > {
            h = MatMul (x, w)
            y = MatMul (h, w)
          })",
       "parameters w buffers "},
      {"numbers, shapes and axes are none",
       R"(net (float[N, 4] x) => (float[N, 2, 2] y)
          < float half = {0.5}, int64[3] shape = {-1, 2, 2} > {
            h = Mul (x, half)
            y = Reshape (h, shape)
          })",
       "parameters buffers "},
      {"a number with a module's name is one",
       R"(net (float[N, 4] x) => (float[N, 4] y) < float[1] "layer.scale" = {0.5} > {
            y = Mul (x, "layer.scale")
          })",
       "parameters layer.scale buffers "},
      {"a batch norm that is a product and a sum is frozen, and has no parameters",
       R"(net (float[N, 4] x) => (float[N, 4] y)
          < float[4] "bn.weight" = ["location": "none"], float[4] "bn.bias" = ["location": "none"],
            float[4] "bn.running_mean" = ["location": "none"],
            float[4] "bn.running_var" = ["location": "none"], float one = {1} > {
            r = Sqrt ("bn.running_var") i = Div (one, r) s = Mul ("bn.weight", i)
            m = Mul ("bn.running_mean", s) b = Sub ("bn.bias", m)
            h = Mul (x, s) y = Add (h, b)
          })",
       "parameters buffers bn.weight bn.bias bn.running_mean bn.running_var "},
      {"what is only compared is a buffer, as is a tutorial's pe",
       R"(net (float[N, 4] x) => (float[N, 4] y)
          < float[4] "head.tril" = ["location": "none"], float[1, 4] "pos.pe" = ["location": "none"],
            float[4] "fc.scale" = ["location": "none"], float zero = {0} > {
            b = Equal ("head.tril", zero)
            m = Where (b, zero, x)
            p = Add (m, "pos.pe")
            y = Mul (p, "fc.scale")
          })",
       "parameters fc.scale buffers head.tril pos.pe "},
      {"what BART adds to its logits is a buffer",
       R"(net (float[N, 4] x) => (float[N, 4] y)
          < float[1, 4] "onnx::Add_9" = ["location": "none"], float[1, 4] "m.row" = ["location": "none"] > {
            h = Add (x, "m.row")
            y = Add (h, "onnx::Add_9")
          })",
       "parameters m.row buffers onnx::Add_9 "},
      {"relative positions that layers project are computed",
       R"(net (float[N, 3] x) => (float[N, 2] y)
          < float[3, 4] pos = ["location": "none"], float[4, 2] "l.0.w" = ["location": "none"],
            float[4, 2] "l.1.w" = ["location": "none"] > {
            ["/l.0/MatMul"] a = MatMul (pos, "l.0.w")
            ["/l.1/MatMul"] b = MatMul (pos, "l.1.w")
            s = Add (a, b)
            y = MatMul (x, s)
          })",
       "parameters l.0.w l.1.w buffers pos "},
      {"a table that two layers of one module project is learned",
       R"(net (float[N, 3] x) => (float[N, 2] y)
          < float[3, 4] pos = ["location": "none"], float[4, 2] "l.w" = ["location": "none"],
            float[4, 2] "r.w" = ["location": "none"] > {
            ["/l/MatMul"] a = MatMul (pos, "l.w")
            ["/r/MatMul"] b = MatMul (pos, "r.w")
            s = Add (a, b)
            y = MatMul (x, s)
          })",
       "parameters pos l.w r.w buffers "},
      {"a table of as many rows as there are tokens is learned",
       R"(net (float[N, 4] x) => (float[N, 2] y)
          < float[4, 4] pos = ["location": "none"], float[4, 2] "l.0.w" = ["location": "none"],
            float[4, 2] "l.1.w" = ["location": "none"] > {
            a = MatMul (pos, "l.0.w")
            b = MatMul (pos, "l.1.w")
            s = Add (a, b)
            y = MatMul (x, s)
          })",
       "parameters pos l.0.w l.1.w buffers "},
      {"statistics of a batch norm are buffers, its count is put back",
       R"(net (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
          < float[2] "bn.weight" = {1, 1}, float[2] "bn.bias" = {0, 0},
            float[2] "bn.running_mean" = {0, 0}, float[2] "bn.running_var" = {1, 1} > {
            y = BatchNormalization (x, "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
          })",
       "parameters bn.weight bn.bias buffers bn.running_mean bn.running_var "
       "bn.num_batches_tracked "},
      {"a computed bias is no parameter",
       R"(net (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
          < float[2, 2, 1, 1] "conv.weight" = ["location": "none"], float zero = {0},
            int64[1] channels = {2} > {
            bias = Expand (zero, channels)
            y = Conv (x, "conv.weight", bias)
          })",
       "parameters conv.weight buffers "},
      {"positions that the device reads are a buffer",
       R"(net (int64[N, 4] x) => (float[N, 4, 2] y)
          < float[8, 2] "wte.weight" = ["location": "none"], int64[4] "wpe.position_ids" = {0, 1, 2, 3} > {
            ids = Add (x, "wpe.position_ids")
            y = Gather ("wte.weight", ids)
          })",
       "parameters wte.weight buffers wpe.position_ids "},
      {"a folded batch norm is put back, its convolution's bias is the folded one",
       R"(net (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
          < float[2, 2, 1, 1] "onnx::Conv_7" = ["location": "none"], float[2] "onnx::Conv_8" = {0, 0} > {
            ["/net/conv/Conv"] y = Conv (x, "onnx::Conv_7", "onnx::Conv_8")
          })",
       "parameters net.conv.weight net.conv_batch_norm.weight net.conv_batch_norm.bias buffers "
       "net.conv_batch_norm.running_mean net.conv_batch_norm.running_var "
       "net.conv_batch_norm.num_batches_tracked "},
      {"what a writer says of an attribute is a constant, and what it has reshaped is none",
       R"(net (float[N, 4] x) => (float[N, 4] y)
          < float "helper.constant.0" = {0.5}, float[1] "auto.cast.1" = {2.0},
            float[4] "helper.reshape.0" = ["location": "none"] > {
            h = Mul (x, "helper.constant.0")
            i = Mul (h, "auto.cast.1")
            y = Mul (i, "helper.reshape.0")
          })",
       "parameters helper.reshape.0 buffers "},
      {"one of equal values that the exporter kept is not used first where it is copied",
       R"(net (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
          < float[2, 2, 1, 1] "onnx::Conv_7" = ["location": "none"], float[2] "b.bias" = {0, 0},
            float[2, 2, 1, 1] "b.weight" = ["location": "none"] > {
            "onnx::Conv_8" = Identity ("b.bias")
            ["/net/conv/Conv"] h = Conv (x, "onnx::Conv_7", "onnx::Conv_8")
            ["/net/b/Conv"] y = Conv (h, "b.weight", "b.bias")
          })",
       "parameters net.conv.weight net.conv_batch_norm.weight net.conv_batch_norm.bias b.weight "
       "b.bias buffers net.conv_batch_norm.running_mean net.conv_batch_norm.running_var "
       "net.conv_batch_norm.num_batches_tracked "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(RolesText(row.graph, {.loss = Loss::kNone}) == row.roles);
  }
}

constexpr char kFolded[] = R"(net (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
    < float[2, 2, 1, 1] "onnx::Conv_7" = ["location": "none"], float[2] "onnx::Conv_8" = {0, 0} > {
      ["/net/conv/Conv"] h = Conv (x, "onnx::Conv_7", "onnx::Conv_8")
      ["/net/relu/Relu"] y = Relu (h)
    })";

TEST_CASE("flags say what a file has lost") {
  CHECK(RolesText(kFolded, {.assumed = {.conv_bias = true}}) ==
        "parameters net.conv.weight net.conv.bias net.conv_batch_norm.weight "
        "net.conv_batch_norm.bias buffers net.conv_batch_norm.running_mean "
        "net.conv_batch_norm.running_var net.conv_batch_norm.num_batches_tracked ");
  const Roles kept = Build(kFolded, {.batch_norm = BatchNormUse::kKeep}).roles;
  CHECK(Names(kept.parameters) == "onnx::Conv_7 onnx::Conv_8 ");
  REQUIRE(kept.warnings.size() == 1);
  CHECK(kept.warnings[0].code == "OF101");
}

TEST_CASE("a folded batch norm runs behind its convolution") {
  CHECK(ToString(Build(kFolded, {.mode = Mode::kEval}).program) == R"(
%net.conv_batch_norm.input = convolution(%x, %net.conv.weight; 1, 0, 1, 1, 0, 0, 1, 1)  # /net/conv/Conv
%h = batch_norm_inference(%net.conv_batch_norm.input, %net.conv_batch_norm.weight, %net.conv_batch_norm.bias, %net.conv_batch_norm.running_mean, %net.conv_batch_norm.running_var)  # /net/conv/Conv
%y = relu(%h)  # /net/relu/Relu
)");
}

TEST_CASE("a buffer of which a slice is left is as large as that") {
  Graph graph = ParseGraph(R"(net (float[N, 3, 2] x) => (float[N, 3, 2] y)
    < float[1, 3, 2] slice_1 = ["location": "none"], float[2] "fc.weight" = ["location": "none"],
      float "m.lifted_tensor_0" = {3} > {
        p = Add (x, slice_1)
        h = Mul (p, "fc.weight")
        y = Div (h, "m.lifted_tensor_0")
    })");
  graph.metadata.emplace_back("graph_signature",
                              "w: PARAMETER target='fc.weight'\n"
                              "b: BUFFER target='pe' persistent=True\n"
                              "c: CONSTANT_TENSOR target='m.lifted_tensor_0'\n");
  const PreparedRun built = Build(graph, {.mode = Mode::kEval});
  CHECK(Names(built.roles.parameters) == "fc.weight ");
  CHECK(Names(built.roles.buffers) == "pe ");
  CHECK(built.roles.BufferBytes() == 3 * 2 * 4);
  CHECK(built.roles.assumptions.size() == 1);
  CHECK(ToString(built.program).starts_with("\n%slice_1 = slice(%pe)"));
}

TEST_CASE("embeddings that count positions themselves have a buffer of them") {
  const auto buffers = [](const std::string& others) {
    const PreparedRun built = Build(R"(n (int64[2, 3] ids) => (float[2, 3, 4] y)
        < float[9, 4] "m.embeddings.word_embeddings.weight" = ["location": "none"],
          float[7, 4] "m.embeddings.position_embeddings.weight" = ["location": "none"] )" +
                                        others +
                                        R"( > {
          one = Constant <value = int64 {1}> ()
          ["/m/embeddings/word_embeddings/Gather"]
          e = Gather ("m.embeddings.word_embeddings.weight", ids)
          ["/m/embeddings/CumSum"] s = CumSum (ids, one)
          ["/m/embeddings/position_embeddings/Gather"]
          p = Gather ("m.embeddings.position_embeddings.weight", s)
          ["/m/embeddings/Add"] y = Add (e, p) })",
                                    {.mode = Mode::kEval});
    std::string text;
    for (const ModuleTensor& buffer : built.roles.buffers) {
      text += buffer.name + ToString(buffer.type) + " ";
    }
    return text;
  };
  CHECK(buffers("") == "m.embeddings.position_idsint64[1, 7] ");
  CHECK(buffers(R"(, float[1, 4] "m.embeddings.token_type_embeddings.weight" = {0, 0, 0, 0})")
            .empty());
}

TEST_CASE("a parameter has the place of the first of its names") {
  Graph graph = ParseGraph(R"(net (float[N, 3] x) => (float[N, 5] y)
    < float[3, 3] "head.fc.weight" = ["location": "none"],
      float[3, 5] "head.decoder.weight" = ["location": "none"],
      float[5] "head.decoder.bias" = ["location": "none"] > {
        ["/head/fc/N"] h = MatMul (x, "head.fc.weight")
        ["/head/decoder/N"] y = Gemm (h, "head.decoder.weight", "head.decoder.bias")
    })");
  graph.metadata.emplace_back("graph_signature",
                              "b: PARAMETER target='head.bias'\n"
                              "w: PARAMETER target='head.fc.weight'\n"
                              "v: PARAMETER target='head.decoder.weight'\n"
                              "c: PARAMETER target='head.decoder.bias'\n");
  const std::string says[] = {FxText("h", "linear.default", "%x, %w"),
                              FxText("y", "linear.default", "%h, %v, %c")};
  for (NodeId node = 0; node < 2; ++node) Say(graph, node, says[node]);
  CHECK(Names(Build(graph, {}).roles.parameters) ==
        "head.bias head.fc.weight head.decoder.weight ");
}

TEST_CASE("position ids that were folded away count the positions of their table") {
  Graph graph = ParseGraph(R"(net (int64[N, 3] x) => (float[N, 3, 2] y)
    < float[9, 2] "m.word_embeddings.weight" = ["location": "none"],
      float[5, 2] "m.position_embeddings.weight" = ["location": "none"], int64[1, 3] slice_1 = {0, 1, 2} > {
      w = Gather ("m.word_embeddings.weight", x)
      p = Gather ("m.position_embeddings.weight", slice_1)
      y = Add (w, p)
    })");
  graph.metadata.emplace_back("pkg.torch.export.ExportedProgram.graph_signature",
                              "w: PARAMETER target='m.word_embeddings.weight'\n"
                              "p: PARAMETER target='m.position_embeddings.weight'\n"
                              "i: BUFFER target='m.position_ids' persistent=False\n"
                              "t: BUFFER target='m.token_type_ids' persistent=False\n"
                              "o: BUFFER target='other.position_ids' persistent=False\n");
  const PreparedRun built = Build(graph, {.mode = Mode::kEval});
  CHECK(Names(built.roles.buffers) == "m.position_ids m.token_type_ids ");
  CHECK(built.roles.BufferBytes() == 2 * 5 * 8);
  CHECK(ToString(built.program) == R"(
%w = embedding(%m.word_embeddings.weight, %x)  # Gather #0
%slice_1 = slice(%m.position_ids)  # Gather #1
%p = embedding(%m.position_embeddings.weight, %slice_1)  # Gather #1
%y = add(%w, %p)  # Add #2
)");
}

TEST_CASE("what a signature does not name is computed, if no parameter is missing") {
  const auto roles = [](const char* signature) {
    Graph graph = ParseGraph(R"(net (float[N, 4] x) => (float[N, 4] y)
        < float[4] "norm.weight" = ["location": "none"], float[1, 4] "embedding_1" = ["location":
          "none"], float[1, 4] "unsqueeze" = ["location": "none"] > {
          a = Mul (x, "norm.weight") b = Add (a, "embedding_1") y = Mul (b, "unsqueeze") })");
    graph.metadata.emplace_back("graph_signature", signature);
    return Names(Build(graph, {}).roles.parameters);
  };
  CHECK(roles("p_norm_weight: PARAMETER target='norm.weight'\n") == "norm.weight ");
  CHECK(roles("p_norm_weight: PARAMETER target='norm.weight'\n"
              "p_wpe_weight: PARAMETER target='wpe.weight'\n") == "norm.weight wpe.weight ");
}

// "self.U.t()", "-self.A" and "self.D.unsqueeze(-1)", which torch.export's optimizer computes.
TEST_CASE("what is computed of a parameter stands for it") {
  const auto roles = [](const char* signature, const char* name) {
    Graph graph = ParseGraph(fmt::format(R"(net (float[N, 4] x) => (float[N, 4] y)
        < float[4] "norm.weight" = ["location": "none"], float[4, 4] {0} = ["location": "none"] > {{
          a = Mul (x, "norm.weight") y = MatMul (a, {0}) }})",
                                         name));
    graph.metadata.emplace_back("graph_signature", signature);
    return Names(Build(graph, {}).roles.parameters);
  };
  constexpr char kOwn[] =
      "p_norm_weight: PARAMETER target='norm.weight'\np_U: PARAMETER target='U'\n";
  CHECK(roles(kOwn, "t_1") == "norm.weight U ");
  CHECK(roles(kOwn, "neg") == "norm.weight U ");
  CHECK(roles(kOwn, "index_1") == "norm.weight ");
  // Of another module than the one that reads the result.
  CHECK(roles("p_norm_weight: PARAMETER target='norm.weight'\np_U: PARAMETER target='fc.U'\n",
              "t_1") == "norm.weight ");
}

TEST_CASE("and two of them that one product reads") {
  Graph graph = ParseGraph(R"(net (float[4, 4] x) => (float[4, 4] y)
      < float[4, 2] "t_1" = ["location": "none"], float[2, 4] "t_2" = ["location": "none"] > {
        a = MatMul ("t_1", "t_2") y = MatMul (x, a) })");
  graph.metadata.emplace_back("graph_signature",
                              "p_U: PARAMETER target='U'\np_V: PARAMETER target='V'\n");
  CHECK(Names(Build(graph, {}).roles.parameters) == "U V ");
}

// pos_emb = self.wpe(torch.arange(3)), of a table as long as the triangle of the mask.
TEST_CASE("a plain tensor of a module is none of its own") {
  const auto roles = [](const std::string& kind) {
    Graph graph = ParseGraph(R"(net (float[N, 4] x) => (float[N, 4] y)
        <float[4] "m.table" = ["location": "none"]> { y = Add (x, "m.table") })");
    const std::string row = "c_m_table: " + kind + " target='m.table'\n";
    graph.metadata.emplace_back("graph_signature", row);
    const Roles found = Build(graph, {.mode = Mode::kEval}).roles;
    return "parameters " + Names(found.parameters) + "buffers " + Names(found.buffers);
  };
  CHECK(roles("CONSTANT_TENSOR") == "parameters buffers ");
  CHECK(roles("BUFFER") == "parameters buffers m.table ");
}

TEST_CASE("a table of which the export holds rows is put back, and its call") {
  Graph graph = ParseGraph(R"(net (float[N, 3, 4] x) => (float[N, 3, 4] y)
      < float[3, 4] embedding_1 = ["location": "none"], float[8, 8] "m.tril" = ["location": "none"] > {
        y = Add (x, embedding_1) })");
  graph.metadata.emplace_back("graph_signature",
                              "p_w: PARAMETER target='wpe.weight'\n"
                              "b_t: BUFFER target='m.tril' persistent=True\n");
  graph.nodes[0].metadata.emplace_back("pkg.torch.onnx.name_scopes", "['', 'add']");
  graph.nodes[0].metadata.emplace_back(
      "pkg.torch.onnx.stack_trace", "File \"a.py\", line 3, in forward\n  x = tok_emb + pos_emb\n");
  const PreparedRun built = Build(graph, {.mode = Mode::kEval});
  CHECK(built.roles.ParameterCount() == 8 * 4);
  REQUIRE(built.roles.assumptions.size() == 1);
  CHECK(built.roles.assumptions[0] ==
        "wpe.weight is taken to have 8 rows, of which the export has kept 3");
  CHECK(ToString(built.program) == R"(
%wpe.weight.arange = constant()  # Add #0
%embedding_1 = embedding(%wpe.weight, %wpe.weight.arange)  # Add #0
%y = add(%x, %embedding_1)  # Add #0
)");
  // pos_emb = self.wpe(torch.arange(n))
  const SourceStatement& line = built.program.source.At(built.program.calls[1].frames[0]);
  CHECK(line.targets == std::vector<std::string>{"pos_emb"});
  CHECK(line.own_call == "wpe");
}

TEST_CASE("what a model makes in its forward is not its own") {
  const auto roles = [](const char* signature) {
    Graph graph = ParseGraph(R"(net (float[N, 4] x) => (float[N, 4] y)
        < float[4] "val_3" = ["location": "none"], float[4] "m.w" = ["location": "none"],
          float "m.lifted_tensor_0" = {2} > {
          h = LayerNormalization (x, "val_3") g = Mul (h, "m.w") y = Mul (g, "m.lifted_tensor_0") })");
    graph.metadata.emplace_back("graph_signature", signature);
    return Names(Build(graph, {}).roles.parameters);
  };
  CHECK(roles("p_w: PARAMETER target='m.w'\n") == "m.w ");
  CHECK(roles("") == "val_3 m.w ");
}

TEST_CASE("a norm whose result is not used is as wide as one beside it") {
  const auto roles = [](const char* lost) {
    Graph graph = ParseGraph(R"(net (float[N, 4] x) => (float[N, 4] y)
        < float[4] "m.pre_layrnorm.weight" = ["location": "none"] > {
          y = Mul (x, "m.pre_layrnorm.weight") })");
    const std::string signature = "p: PARAMETER target='m.pre_layrnorm.weight'\n" +
                                  fmt::format("q: PARAMETER target='{}'\n", lost);
    graph.metadata.emplace_back("graph_signature", signature);
    return Build(graph, {}).roles;
  };
  const Roles counted = roles("m.post_layernorm.weight");
  CHECK(counted.ParameterCount() == 2 * 4);
  REQUIRE(counted.assumptions.size() == 1);
  CHECK(counted.assumptions[0] ==
        "m.post_layernorm.weight, of which the file has only the name, is as large as "
        "m.pre_layrnorm.weight");
  CHECK(roles("m.post_layernorm.bias").ParameterCount() == 2 * 4);  // by a row of libraries/
  CHECK(roles("m.end_layernorm.bias").ParameterCount() == 4);
  CHECK(roles("m.layers.norm.weight").ParameterCount() == 4);
  CHECK(roles("m.projector.weight").ParameterCount() == 4);
}

TEST_CASE("a file of 16 bits that is counted in fp32 is told") {
  const auto told = [](const std::string& types, Precision precision) {
    const Roles roles = Build("net (float[N, 4] x) => (float[N, 2] y) < " + types +
                                  R"( > { c = CastLike (w, x) y = MatMul (x, c) })",
                              {.precision = precision})
                            .roles;
    return roles.assumptions.empty() ? std::string() : roles.assumptions.back();
  };
  const std::string half = R"(float16[4, 2] w = ["location": "none"])";
  CHECK(told(half, Precision::kFp32) ==
        "the file stores its parameters in float16; they are counted in fp32 (-p fp16, if the "
        "model runs in what the file holds)");
  CHECK(told(half, Precision::kFp16).empty());
  CHECK(told(R"(bfloat16[4, 2] w = ["location": "none"])", Precision::kAmpBf16).find("(-p bf16,") !=
        std::string::npos);
  CHECK(told(R"(float[4, 2] w = ["location": "none"])", Precision::kFp32).empty());
}

// Exports of one network: what PyTorch's module has, whatever the file has lost.
TEST_CASE("the signature of a real export names what was folded away") {
  const std::string models = std::string(kSourceDir) + "/models/";
  const Roles dynamo = Build(LoadGraph(models + "resnet50.dynamo.onnx"), {}).roles;
  const Roles train = Build(LoadGraph(models + "resnet50.train.onnx"), {}).roles;
  CHECK(dynamo.ParameterCount() == 25557032);  // torchvision's resnet50
  CHECK(dynamo.BufferBytes() == train.BufferBytes());
  CHECK(Names(dynamo.parameters) == Names(train.parameters));
}

}  // namespace
}  // namespace onnxfit::roles_test

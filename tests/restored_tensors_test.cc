#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/exporters/exporter_metadata.h"
#include "estimator/onnx/loader.h"
#include "estimator/parameters/roles.h"
#include "tests/fx_text.h"
#include "tests/trace_helpers.h"

namespace onnxfit::restored_tensors_test {
namespace {

// The graph after its tensors are restored; fx[i] is what torch.export says of node i.
std::string Restored(std::string_view text, std::string_view signature,
                     const std::vector<std::string>& fx) {
  Graph graph = ParseGraph(text);
  graph.metadata.emplace_back("pkg.torch.export.ExportedProgram.graph_signature", signature);
  for (size_t i = 0; i < fx.size(); ++i) Say(graph, static_cast<NodeId>(i), fx[i]);
  RestoreTensors(graph, ReadExporterMetadata(graph));
  std::string tensors;
  for (const Initializer& initializer : graph.initializers) {
    tensors +=
        std::string(graph.values[Index(initializer.value)].name) + ToString(initializer.type) + " ";
  }
  for (const Node& node : graph.nodes) {
    tensors += "| ";
    for (const ValueId input : node.inputs)
      tensors += std::string(graph.values[Index(input)].name) + " ";
  }
  return tensors;
}

std::string Call(const std::string& target, const std::string& arguments,
                 const std::string& name = "y") {
  return FxText(name, target, arguments);
}

TEST_CASE("weights that were computed twice of one parameter are one") {
  const auto restored = [](const std::string& name) {
    return Restored("n (float[2, 2] x) => (float[2, 2] y) < float[2, 2] \"" + name +
                        R"(" = ["location": "none"] > {
                          b = Identity (")" +
                        name + R"(") h = Mul (x, ")" + name + R"(") y = Mul (h, b) })",
                    "", {});
  };
  CHECK(restored("onnx::MatMul_9") ==
        "onnx::MatMul_9float32[2, 2] | onnx::MatMul_9 | x onnx::MatMul_9 | h onnx::MatMul_9 ");
  CHECK(restored("onnx::Mul_9") ==
        "onnx::Mul_9float32[2, 2] bfloat32[2, 2] | onnx::Mul_9 | x onnx::Mul_9 | h b ");
}

TEST_CASE("copies come back in the module's order, from the last to the first") {
  CHECK(Restored(R"(n (float[2] x) => (float[2] y) < float[2] "m.a.bias" = {0, 0} > {
                      "m.c.bias" = Identity ("m.a.bias") "m.b.bias" = Identity ("m.a.bias")
                      h = Add (x, "m.b.bias") y = Add (h, "m.c.bias") })",
                 "", {}) ==
        "m.a.biasfloat32[2] m.b.biasfloat32[2] m.c.biasfloat32[2] "
        "| m.a.bias | m.a.bias | x m.b.bias | h m.c.bias ");
}

// Which comes between the file's initializers: their elements are still their own.
TEST_CASE("the elements of initializers go with them where a copy comes back") {
  Graph graph = ParseGraph(R"(
    n (float[N, 2, 3] x) => (float[N, 6] y)
    < float[3] "m.a.bias" = {0, 0, 0}, int64[2] flat = {-1, 6} > {
      "m.b.bias" = Identity ("m.a.bias")
      g = Add (x, "m.a.bias") h = Add (g, "m.b.bias") y = Reshape (h, flat) })");
  RestoreTensors(graph, ReadExporterMetadata(graph));
  CHECK(graph.initializers.size() == 3);
  const Shapes shapes = BindShapes(graph, {.batch = 4});
  CHECK(shapes.types[Index(graph.outputs[0])].tensor.dims == Dims{4, 6});
}

TEST_CASE("a number that the model's code copies stays one") {
  CHECK(Restored("n (float[2] x) => (float[2] y) < float \"m.lifted_tensor_2\" = {32} > {"
                 " b = Identity (\"m.lifted_tensor_2\") y = Mul (x, b) }",
                 "", {}) == "m.lifted_tensor_2float32[] | m.lifted_tensor_2 | x b ");
}

TEST_CASE("equal weights of numbered layers are each layer's own") {
  const auto restored = [](const std::string& second_layer) {
    return Restored(R"(n (float[N, 3, 2] x) => (float[N, 3, 2] y)
                       < float[2, 2] "onnx::MatMul_9" = ["location": "none"],
                         float[2] "l.0.fc.bias" = {0, 0} > {
                         "onnx::MatMul_8" = Identity ("onnx::MatMul_9")
                         ")" +
                        second_layer + R"(.fc.bias" = Identity ("l.0.fc.bias")
                         ["/l.0/fc/MatMul"] a = MatMul (x, "onnx::MatMul_9")
                         ["/l.1/fc/MatMul"] y = MatMul (a, "onnx::MatMul_8") })",
                    "", {});
  };
  CHECK(restored("l.1") ==
        "onnx::MatMul_9float32[2, 2] l.0.fc.biasfloat32[2] l.1.fc.biasfloat32[2] "
        "onnx::MatMul_8float32[2, 2] | onnx::MatMul_9 | l.0.fc.bias | x onnx::MatMul_9 "
        "| a onnx::MatMul_8 ");
  CHECK(restored("head") ==
        "onnx::MatMul_9float32[2, 2] l.0.fc.biasfloat32[2] head.fc.biasfloat32[2] "
        "| onnx::MatMul_9 | l.0.fc.bias | x onnx::MatMul_9 | a onnx::MatMul_9 ");
}

TEST_CASE("tensors that torch.export merged or dropped are put back") {
  struct Row {
    const char* name;
    const char* graph;
    const char* signature;
    std::vector<std::string> fx;
    const char* restored;
  };
  constexpr char kNorm[] = R"(n (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
      < float[2] "a.weight" = {1, 1}, float[2] "a.bias" = {0, 0} > {
        h = BatchNormalization (x, "a.weight", "a.bias", "a.bias", "a.weight")
        y = BatchNormalization (h, "a.weight", "a.bias", "a.bias", "a.weight")
      })";
  constexpr char kNormSignature[] =
      "p_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
      "p_b_weight: PARAMETER target='b.weight'\np_b_bias: PARAMETER target='b.bias'\n"
      "b_a_mean: BUFFER target='a.mean' persistent=True\n"
      "b_a_var: BUFFER target='a.var' persistent=True\n";
  constexpr char kLinear[] = R"(n (float[N, 3] x) => (float[N, 2] y)
      < float[2, 3] "fc.weight" = ["location": "none"] > {
        y = Gemm <transB = 1> (x, "fc.weight")
      })";
  constexpr char kLinearSignature[] =
      "p_fc_weight: PARAMETER target='fc.weight'\np_fc_bias: PARAMETER target='fc.bias'\n";
  const Row rows[] = {
      {"norms that are ones and zeros",
       kNorm,
       kNormSignature,
       {Call("batch_norm.default", "%x, %p_a_weight, %p_a_bias, %b_a_mean, %b_a_var, True"),
        Call("batch_norm.default", "%h, %p_b_weight, %p_b_bias, %b_a_mean, %b_a_var, True", "z")},
       "a.weightfloat32[2] a.biasfloat32[2] a.meanfloat32[2] a.varfloat32[2] b.weightfloat32[2] "
       "b.biasfloat32[2] | x a.weight a.bias a.mean a.var | h b.weight b.bias a.mean a.var "},
      {"a bias of zeros",
       kLinear,
       kLinearSignature,
       {Call("linear.default", "%x, %p_fc_weight, %p_fc_bias")},
       "fc.weightfloat32[2, 3] fc.biasfloat32[2] | x fc.weight fc.bias "},
      {"no bias",
       kLinear,
       kLinearSignature,
       {Call("linear.default", "%x, %p_fc_weight")},
       "fc.weightfloat32[2, 3] | x fc.weight "},
      {"a bias of zeros in a transposed convolution of two groups",
       R"(n (float[N, 4, 2, 2] x) => (float[N, 6, 4, 4] y)
          < float[4, 3, 2, 2] "up.weight" = ["location": "none"] > {
            y = ConvTranspose <group = 2, strides = [2, 2]> (x, "up.weight")
          })",
       "p_w: PARAMETER target='up.weight'\np_b: PARAMETER target='up.bias'\n",
       {Call("conv_transpose2d.input", "%x, %p_w, %p_b, [2, 2]")},
       "up.weightfloat32[4, 3, 2, 2] up.biasfloat32[6] | x up.weight up.bias "},
      {"a weight that the exporter transposed gets its name",
       R"(n (float[N, 2, 3] x) => (float[N, 2, 4] y) < float[3, 4] val_7 = ["location": "none"] > {
            y = MatMul (x, val_7)
          })",
       kLinearSignature,
       {Call("linear.default", "%x, %p_fc_weight")},
       "fc.weightfloat32[3, 4] | x fc.weight "},
      {"two that were equal stay two",
       R"(n (float[N, 2, 3] x) => (float[N, 2, 3] y) < float[3, 3] val_7 = ["location": "none"] > {
            h = MatMul (x, val_7)
            y = MatMul (h, val_7)
          })",
       "p_a: PARAMETER target='a.weight'\np_b: PARAMETER target='b.weight'\n",
       {Call("linear.default", "%x, %p_a"), Call("linear.default", "%h, %p_b", "z")},
       "a.weightfloat32[3, 3] b.weightfloat32[3, 3] | x a.weight | h b.weight "},
      {"a merged bias of calls that share a transposed weight",
       R"(n (float[N, 2, 3] x) => (float[N, 2, 3] y)
          < float[3, 3] "a.weight" = ["location": "none"], float[3] "c.bias" = {0, 0, 0} > {
            t = Transpose <perm = [1, 0]> ("a.weight")
            h = MatMul (x, t) i = Add (h, "c.bias") j = MatMul (i, t) y = Add (j, "c.bias")
          })",
       "p_a: PARAMETER target='a.weight'\np_b: PARAMETER target='a.bias'\n"
       "p_c: PARAMETER target='c.bias'\n",
       {Call("linear.default", "%x, %p_a, %p_b", "i"),
        Call("linear.default", "%x, %p_a, %p_b", "i"),
        Call("linear.default", "%x, %p_a, %p_b", "i"), Call("linear.default", "%i, %p_a, %p_b"),
        Call("linear.default", "%i, %p_a, %p_b")},
       "a.weightfloat32[3, 3] c.biasfloat32[3] a.biasfloat32[3] | a.weight | x t | h a.bias "
       "| i t | j a.bias "},
      {"views of a table that the file does not hold",
       R"(n (float[1, 2, 3] x) => (float[1, 2, 3] y)
          < float[1, 2, 3] "unsqueeze_8" = ["location": "none"],
            float[1, 2, 3] "unsqueeze_10" = ["location": "none"], float[1, 2, 3] "val_1" = ["location": "none"] > {
            h = Add (x, "unsqueeze_8") g = Add (h, "val_1") y = Add (g, "unsqueeze_10")
          })",
       "p_t: PARAMETER target='t.weight'\n",
       {},
       "t.weightfloat32[1, 2, 3] unsqueeze_10float32[1, 2, 3] val_1float32[1, 2, 3] "
       "| x t.weight | h val_1 | g t.weight "},
      {"nothing where two tables are lost",
       R"(n (float[1, 2, 3] x) => (float[1, 2, 3] y)
          < float[1, 2, 3] "unsqueeze_8" = ["location": "none"] > { y = Add (x, "unsqueeze_8") })",
       "p_t: PARAMETER target='t.weight'\np_u: PARAMETER target='u.weight'\n",
       {},
       "unsqueeze_8float32[1, 2, 3] | x unsqueeze_8 "},
      {"a tied weight is named once",
       R"(n (float[N, 3] x) => (float[N, 3] y) < float[3, 3] "a.weight" = ["location": "none"] > {
            h = MatMul (x, "a.weight")
            y = MatMul (h, "a.weight")
          })",
       "p_a: PARAMETER target='a.weight'\np_b: PARAMETER target='b.weight'\n",
       {Call("linear.default", "%x, %p_a"), Call("linear.default", "%h, %p_a", "z")},
       "a.weightfloat32[3, 3] | x a.weight | h a.weight "},
      {"a folded batch norm is left to its own rule",
       R"(n (float[N, 2, 4, 4] x) => (float[N, 2, 4, 4] y)
          < float[2, 2, 1, 1] "c.weight" = ["location": "none"], float[2] "a.weight_bias" = {1, 2} > {
            y = Conv (x, "c.weight", "a.weight_bias")
          })",
       kNormSignature,
       {Call("batch_norm.default", "%c, %p_a_weight, %p_a_bias, %b_a_mean, %b_a_var")},
       "c.weightfloat32[2, 2, 1, 1] a.weight_biasfloat32[2] | x c.weight a.weight_bias "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(Restored(row.graph, row.signature, row.fx) == row.restored);
  }
}

TEST_CASE("tensors that the TorchScript exporter merged are put back") {
  CHECK(Restored(R"(n (float[N, 3] x) => (float[N, 3] y) < float[3] "a.bias" = {0, 0, 0} > {
                      "b.bias" = Identity ("a.bias")
                      h = Add (x, "a.bias")
                      y = Add (h, "b.bias")
                    })",
                 "", {}) == "a.biasfloat32[3] b.biasfloat32[3] | a.bias | x a.bias | h b.bias ");
}

// x * self.gamma.view(1, -1), layer scales of two modules, which are equal; and
// addcmul(self.bias.view(…), self.weight.view(…), x), of which one view stands for both.
TEST_CASE("parameters of which the file holds computed views are put back") {
  const auto restored = [](const char* nodes, std::string_view signature,
                           const std::vector<std::string>& calls,
                           const std::vector<std::string>& scopes, std::string_view line) {
    Graph graph = ParseGraph(std::string(R"(n (float[N, 3] x) => (float[N, 3] y)
        < float[1, 3] "view" = ["location": "none"] > { )") +
                             nodes + " }");
    graph.metadata.emplace_back("graph_signature", signature);
    const std::string trace = "File \"m.py\", line 3, in forward\n  " + std::string(line);
    for (size_t i = 0; i < calls.size(); ++i) {
      Say(graph, static_cast<NodeId>(i), calls[i]);
      graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.name_scopes", scopes[i]);
      graph.nodes[i].metadata.emplace_back("pkg.torch.onnx.stack_trace", trace);
    }
    RestoreTensors(graph, ReadExporterMetadata(graph));
    std::string read;
    for (const Node& node : graph.nodes) {
      for (const ValueId input : node.inputs) {
        const Value& value = graph.values[Index(input)];
        if (value.initializer < 0) continue;
        read += std::string(value.name) +
                ToString(graph.initializers[Index(value.initializer)].type) + " ";
      }
    }
    return read;
  };
  constexpr char kScales[] = R"(h = Mul (x, "view") y = Mul (h, "view"))";
  const std::vector<std::string> calls = {FxText("h", "mul.Tensor", "%x, %view"),
                                          FxText("y", "mul.Tensor", "%h, %view_1")};
  const std::vector<std::string> scopes = {"['', 'm', 'm.0', 'op']", "['', 'm', 'm.1', 'op']"};
  constexpr char kLine[] = "return x * self.gamma.view(1, -1)";
  CHECK(restored(kScales, "p_a: PARAMETER target='m.0.gamma'\np_b: PARAMETER target='m.1.gamma'\n",
                 calls, scopes, kLine) == "m.0.gammafloat32[1, 3] m.1.gammafloat32[1, 3] ");
  CHECK(restored(kScales, "b_a: BUFFER target='m.0.gamma' persistent=True\n", calls, scopes,
                 kLine) == "viewfloat32[1, 3] viewfloat32[1, 3] ");
  CHECK(restored(R"(h = Mul ("view", x) y = Add ("view", h))",
                 "p_w: PARAMETER target='m.0.weight'\np_b: PARAMETER target='m.0.bias'\n",
                 {FxText("y", "addcmul.default", "%view, %view_1, %x"),
                  FxText("y", "addcmul.default", "%view, %view_1, %x")},
                 {scopes[0], scopes[0]}, "return addcmul(self.bias.view(1, -1), self.weight, x)") ==
        "m.0.biasfloat32[1, 3] m.0.weightfloat32[1, 3] ");
}

// x * (1.0 + self.weight), Gemma's norm; the weights of two are equal.
TEST_CASE("weights of which the file holds 1 + themselves are put back, and the sums") {
  Graph graph = ParseGraph(R"(net (float[2, 8] x) => (float[2, 8] y)
      < float[8] add_9 = ["location": "none"] > { h = Mul (x, add_9) y = Mul (h, add_9) })");
  graph.metadata.emplace_back("graph_signature",
                              "p_w: PARAMETER target='m.0.weight'\n"
                              "p_v: PARAMETER target='m.1.weight'\n");
  const std::string says[] = {FxText("h", "mul.Tensor", "%x, %add_9"),
                              FxText("y", "mul.Tensor", "%h, %add_12")};
  const std::string scopes[] = {"['', 'm', 'm.0', 'op']", "['', 'm', 'm.1', 'op']"};
  for (NodeId node = 0; node < 2; ++node) {
    Say(graph, node, says[node]);
    graph.nodes[Index(node)].metadata.emplace_back("pkg.torch.onnx.name_scopes", scopes[node]);
  }
  CHECK(ToString(Build(graph, {.mode = Mode::kEval}).program) == R"(
%add_9 = add.Scalar(%m.0.weight)  # Mul #0
%h = mul(%x, %add_9)  # Mul #0
%add_12 = add.Scalar(%m.1.weight)  # Mul #1
%y = mul(%h, %add_12)  # Mul #1
)");
}

TEST_CASE("a class token that was folded with its expand has its own name") {
  constexpr std::string_view kToken = R"(n (float[1, 3, 2] x) => (float[1, 4, 2] y)
      < float[1, 1, 2] expand = ["location": "none"] > { y = Concat <axis = 1> (expand, x) })";
  const std::string call = Call("cat", "[%expand, %x], 1");
  CHECK(Restored(kToken, "p_cls: PARAMETER target='cls'\n", {call}) ==
        "clsfloat32[1, 1, 2] | cls x ");
  // Another parameter may be what was lost: none is taken for the other.
  CHECK(Restored(kToken, "p_cls: PARAMETER target='cls'\np_dist: PARAMETER target='dist'\n",
                 {call}) == "expandfloat32[1, 1, 2] | expand x ");
}

}  // namespace
}  // namespace onnxfit::restored_tensors_test

#include <doctest/doctest.h>

#include <string>

#include "estimator/base/index.h"
#include "estimator/onnx/contrib_operators.h"
#include "estimator/onnx/loader.h"

namespace onnxfit::fused_parts_test {
namespace {

constexpr const char* kHeader =
    "<ir_version: 10, opset_import: [\"\" : 17, \"com.microsoft\" : 1]> ";

// The nodes that those of `body` become, a line each.
std::string Parts(const std::string& body) {
  const Graph graph = TakeFusedApart(
      ParseGraph(std::string(kHeader) +
                 ("net (float[2, 3, 8] x, float[2, 3, 8] z, float[2, 4, 6, 6] i) => (float y) "
                  "< float[8] w = [\"location\": \"none\"], float[8] b = [\"location\": \"none\"], "
                  "float[5, 8] k = [\"location\": \"none\"], float[5] c = [\"location\": \"none\"],"
                  "float[4, 4, 3, 3] f = [\"location\": \"none\"], float[8, 8] m = [\"location\": "
                  "\"none\"] > { " +
                  body + " }")),
      {});
  std::string text = "\n";
  for (const Node& node : graph.nodes) {
    text += std::string(node.op_type) + "(";
    for (const ValueId value : node.inputs) {
      text += text.back() == '(' ? "" : ", ";
      text += graph.values[Index(value)].name;
    }
    text += node.name.empty() ? ")\n" : ") " + std::string(node.name) + "\n";
  }
  return text;
}

TEST_CASE("products") {
  CHECK(Parts("y = com.microsoft.FusedMatMul <alpha = 1.0> (x, m)") == "\nMatMul(x, m)\n");
  CHECK(Parts("y = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (x, z)") == R"(
Transpose(z) /Transpose
MatMul(x, /Transpose_output_0) /MatMul
Mul(/MatMul_output_0, y/Constant)
)");
  CHECK(Parts("r = Squeeze(m) [\"fused /h/Gemm\"] \"/h/act/Tanh_output_0\" = "
              "com.microsoft.FusedGemm <activation = \"Tanh\", transB = 1> (r, k, c) "
              "y = Neg(\"/h/act/Tanh_output_0\")") == R"(
Squeeze(m)
Gemm(r, k, c) /h/Gemm
Tanh(/h/Gemm_output_0) /h/act/Tanh
Neg(/h/act/Tanh_output_0)
)");
  CHECK(Parts("y = com.microsoft.FusedConv <activation = \"Relu\", kernel_shape = [3, 3], "
              "pads = [1, 1, 1, 1]> (i, f, , i)") == R"(
Conv(i, f) /Conv
Add(/Conv_output_0, i) /Add
Relu(/Add_output_0)
)");
}

TEST_CASE("attention scales both operands, as PyTorch's exporter writes it") {
  CHECK(Parts("s = com.microsoft.FusedMatMul <alpha = 0.25, transB = 1> (x, z) a = Softmax(s) "
              "n = IsNaN(a) y = Where(n, w, a)") == R"(
Transpose(z) /Transpose
Mul(x, s/Constant) /Mul
Mul(/Transpose_output_0, s/Constant_1) /Mul_1
MatMul(/Mul_output_0, /Mul_1_output_0)
Softmax(s)
IsNaN(a)
Where(n, w, a)
)");
}

TEST_CASE("biases, sums and norms have the names that an exporter gave them") {
  CHECK(Parts("\"/l/dense/MatMul_output_0\" = MatMul(x, m) \"/l/LayerNorm/LayerNormalization_"
              "output_0\" = com.microsoft.SkipLayerNormalization (\"/l/dense/MatMul_output_0\", z, "
              "w, b, b) y = Neg(\"/l/LayerNorm/LayerNormalization_output_0\")") == R"(
MatMul(x, m)
Add(/l/dense/MatMul_output_0, b) /l/dense/Add
Add(/l/dense/Add_output_0, z) /l/Add
LayerNormalization(/l/Add_output_0, w, b) /l/LayerNorm/LayerNormalization
Neg(/l/LayerNorm/LayerNormalization_output_0)
)");
  CHECK(Parts("n, m1, m2, s = com.microsoft.SkipLayerNormalization (x, z, w, b) y = Sub(n, s)") ==
        R"(
Add(x, z)
LayerNormalization(s, w, b)
Sub(n, s)
)");
  CHECK(Parts("y = com.microsoft.BiasGelu (x, b)") == R"(
Add(x, b) /Add
com.microsoft.Gelu(/Add_output_0)
)");
  CHECK(Parts("y = com.microsoft.BiasDropout (x, b, z)") == R"(
Add(x, b) /Add
Dropout(/Add_output_0) /Dropout
Add(/Dropout_output_0, z)
)");
  CHECK(Parts("y = com.microsoft.BiasSoftmax <axis = -1, is_inner_broadcast = 0> (x, z)") == R"(
Add(x, z) /Add
Softmax(/Add_output_0)
)");
}

TEST_CASE("an embedding is read from its tables") {
  CHECK(Parts("ids = Cast <to = 7> (x) one = ReduceMax <axes = [2], keepdims = 0> (ids) "
              "y = com.microsoft.EmbedLayerNormalization (one, , k, k, , w, b)") == R"(
Cast(x)
ReduceMax(ids)
Gather(k, one) /word_embeddings/Gather
Gather(k, y/Constant) /position_embeddings/Gather
Add(/word_embeddings/Gather_output_0, /position_embeddings/Gather_output_0) /Add
LayerNormalization(/Add_output_0, w, b)
)");
}

TEST_CASE("what has no parts stays") {
  CHECK(Parts("y = com.microsoft.FastGelu (x)") == "\ncom.microsoft.FastGelu(x)\n");
  CHECK(Parts("y = com.microsoft.Unheard (x)") == "\ncom.microsoft.Unheard(x)\n");
}

}  // namespace
}  // namespace onnxfit::fused_parts_test

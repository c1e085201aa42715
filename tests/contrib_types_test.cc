#include <doctest/doctest.h>

#include <string>

#include "estimator/base/error.h"
#include "estimator/base/index.h"
#include "estimator/onnx/loader.h"
#include "estimator/onnx/shapes.h"

namespace onnxfit::contrib_types_test {
namespace {

Graph GraphOf(const std::string& body) {
  return ParseGraph(
      "<ir_version: 10, opset_import: [\"\" : 17, \"com.microsoft\" : 1]> "
      "net (float[2, 3, 8] x, float[2, 5, 8] z, int64[2, 3] ids, float[2, 4, 9, 9] i) "
      "=> (float y) < float[8] w = [\"location\": \"none\"], "
      "float[8, 24] packed = [\"location\": \"none\"], "
      "float[4, 3, 16] turned = [\"location\": \"none\"], "
      "float[100, 8] table = [\"location\": \"none\"], "
      "float[6, 4, 3, 3] f = [\"location\": \"none\"], "
      "float[2, 3, 2, 3, 4] qkv = [\"location\": \"none\"] > { " +
      body + " }");
}

// Types of the outputs of the last node, and the warnings.
std::string Made(const std::string& body) {
  const Graph graph = GraphOf(body);
  const Shapes shapes = BindShapes(graph, {});
  std::string text;
  for (const ValueId value : graph.nodes.back().outputs) {
    text += ToString(shapes.types[Index(value)].tensor) + " ";
  }
  for (const Warning& warning : shapes.warnings) text += warning.text;
  return text;
}

std::string ErrorOf(const std::string& body) {
  try {
    BindShapes(GraphOf(body), {});
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("what ONNX Runtime's operators make follows from their inputs") {
  struct Row {
    const char* node;
    const char* types;
  };
  const Row rows[] = {
      {"y = com.microsoft.BiasGelu (x, w)", "float32[2, 3, 8] "},
      {"y = com.microsoft.BiasSplitGelu (x, w)", "float32[2, 3, 4] "},
      {"y, m = com.microsoft.BiasDropout (x, w)", "float32[2, 3, 8] bool[2, 3, 8] "},
      {"y, m, v, s = com.microsoft.SkipLayerNormalization (x, x, w)",
       "float32[2, 3, 8] float32[2, 3, 1] float32[2, 3, 1] float32[2, 3, 8] "},
      {"y = SimplifiedLayerNormalization (x, w)", "float32[2, 3, 8] "},
      {"y, m, s = com.microsoft.EmbedLayerNormalization (ids, , table, table, , w, w)",
       "float32[2, 3, 8] int32[2] float32[2, 3, 8] "},
      {"y = com.microsoft.FusedMatMul <transB = 1> (x, z)", "float32[2, 3, 5] "},
      {"y = com.microsoft.FusedMatMul <transA = 1> (x, x)", "float32[2, 8, 8] "},
      {"y = com.microsoft.FusedMatMul <transBatchA = 1> (turned, turned)", ""},
      {"y = com.microsoft.FusedMatMul (x, packed)", "float32[2, 3, 24] "},
      {"y = com.microsoft.FusedGemm <transB = 1> (table, table)", "float32[100, 100] "},
      {"y = com.microsoft.MatMulNBits <N = 11, K = 8> (x, ids, w)", "float32[2, 3, 11] "},
      {"y = com.microsoft.FusedConv <kernel_shape = [3, 3], strides = [2, 2]> (i, f)",
       "float32[2, 6, 4, 4] "},
      {"y = com.microsoft.FusedConv <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (i, f)",
       "float32[2, 6, 5, 5] "},
      {"t = Transpose <perm = [0, 2, 3, 1]> (i) y = com.microsoft.NhwcConv (t, f)",
       "float32[2, 7, 7, 6] "},
      {"y, p = com.microsoft.Attention <num_heads = 2> (x, packed)",
       "float32[2, 3, 8] float32[2, 2, 2, 3, 4] "},
      {"y, k, v = com.microsoft.MultiHeadAttention <num_heads = 2> (x, z, z)",
       "float32[2, 3, 8] float32[2, 2, 5, 4] float32[2, 2, 5, 4] "},
      {"y = com.microsoft.MultiHeadAttention <num_heads = 2> (qkv)", "float32[2, 3, 8] "},
      {"q = Concat <axis = -1> (x, x) y, k, v = com.microsoft.GroupQueryAttention "
       "<num_heads = 4, kv_num_heads = 2> (q, x, x)",
       "float32[2, 3, 16] float32[2, 2, 3, 4] float32[2, 2, 3, 4] "},
  };
  for (const Row& row : rows) {
    CAPTURE(row.node);
    if (*row.types != 0) CHECK(Made(row.node) == row.types);
  }
}

TEST_CASE("inputs that do not go together are refused") {
  CHECK(ErrorOf("[mul] y = com.microsoft.FusedMatMul (x, z)") ==
        "<text>: node 'mul' (com.microsoft.FusedMatMul): its inputs do not go together");
  CHECK(ErrorOf("[norm] y = com.microsoft.SkipLayerNormalization (x, x)") ==
        "<text>: node 'norm' (com.microsoft.SkipLayerNormalization): expected 3 inputs at least, "
        "input 2 is "
        "missing");
}

TEST_CASE("an operator without a schema is named as the cause of what contradicts it") {
  CHECK(ErrorOf("[odd] a = com.acme.Halve (x) b = Relu(a) [sum] y = Add(b, packed)") ==
        "<text>: node 'odd' (com.acme.Halve): ONNX has no schema for com.acme.Halve, so its output "
        "was "
        "taken to be like its first input; node 'sum' that reads it says: float32[2, 3, 8] and "
        "float32[8, 24] cannot be broadcast: 8 beside 24, as 'packed' has "
        "(try: the export from before an optimizer fused operators)");
}

}  // namespace
}  // namespace onnxfit::contrib_types_test

#include <doctest/doctest.h>

#include <string>

#include "tests/trace_helpers.h"

namespace onnxfit::lowering_fused_test {
namespace {

// What PyTorch runs for `node`: the operators alone.
std::string Calls(const std::string& node, const std::string& further = "") {
  const Program program =
      Build(
          "<ir_version: 10, opset_import: [\"\" : 23, \"com.microsoft\" : 1]> "
          "net (" +
              further +
              "float[2, 3, 8] x, float[2, 3, 8] z) => (float[2, 3, 8] y) "
              "< float[8] w = [\"location\": \"none\"], float[8] b = [\"location\": \"none\"], "
              "float[8, 24] packed = [\"location\": \"none\"] > { " +
              node + " }",
          {.mode = Mode::kEval})
          .program;
  std::string calls;
  for (const AtenCall& call : program.calls) calls += std::string(call.op) + " ";
  return calls;
}

TEST_CASE("what optimizers fuse runs in its parts") {
  CHECK(Calls("y = com.microsoft.BiasGelu (x, b)") == "add gelu ");
  CHECK(Calls("y = com.microsoft.FastGelu (x)") == "gelu ");
  CHECK(Calls("y = com.microsoft.SkipLayerNormalization (x, z, w, b)") == "add layer_norm ");
  CHECK(Calls("n, m, v, s = com.microsoft.SkipLayerNormalization (x, z, w, b) y = Sub (n, s)") ==
        "add layer_norm sub ");
  CHECK(Calls("y = com.microsoft.SkipSimplifiedLayerNormalization (x, z, w)") ==
        "add pow.Tensor_Scalar mean add.Scalar rsqrt mul mul ");
  CHECK(Calls("y = com.microsoft.MultiHeadAttention <num_heads = 2> (x, z, z)") ==
        "view permute view permute view permute scaled_dot_product_attention permute view ");
  CHECK(Calls("y = com.microsoft.Attention <num_heads = 2> (x, packed)") ==
        "linear slice slice slice view permute view permute view permute "
        "scaled_dot_product_attention permute view ");
  CHECK(Calls("y = com.microsoft.QuickGelu (x)") == "mul.Scalar sigmoid mul ");
  CHECK(Calls("y = com.microsoft.GroupNorm <channels_last = 0, groups = 1, activation = 1> (x, w, "
              "b)") == "group_norm silu view ");
  CHECK(Calls("y = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2> (q, x, z)",
              "float[2, 3, 16] q, ") ==
        "view permute view permute view permute scaled_dot_product_attention permute view ");
  CHECK(Calls("y = com.microsoft.Unheard (x)") == "? ");
}

TEST_CASE("opset 23 has attention and RMS norms") {
  CHECK(Calls("y = RMSNormalization (x, w)") == "pow.Tensor_Scalar mean add.Scalar rsqrt mul mul ");
  CHECK(Calls("y = Attention <q_num_heads = 2, kv_num_heads = 2> (x, z, z)") ==
        "view permute view permute view permute scaled_dot_product_attention permute view ");
}

}  // namespace
}  // namespace onnxfit::lowering_fused_test

// A network of two feed-forward blocks of tokens, with norms and sums between them.
#pragma once

namespace onnxfit {

// 8 sequences of 32 tokens, of 64 features and 128 within blocks.
inline constexpr char kBlocksWithNorms[] = R"(
  net (float[8, 32, 64] x) => (float[8, 32, 2] y)
  < float[64, 64] "stem.weight" = ["location": "none"],
    float[64] "h.0.norm.weight" = ["location": "none"],
    float[64] "h.0.norm.bias" = ["location": "none"],
    float[64, 128] "h.0.mlp.fc1.weight" = ["location": "none"],
    float[128, 64] "h.0.mlp.fc2.weight" = ["location": "none"],
    float[64] "h.1.norm.weight" = ["location": "none"],
    float[64] "h.1.norm.bias" = ["location": "none"],
    float[64, 128] "h.1.mlp.fc1.weight" = ["location": "none"],
    float[128, 64] "h.1.mlp.fc2.weight" = ["location": "none"],
    float[64] "norm.weight" = ["location": "none"], float[64] "norm.bias" = ["location": "none"],
    float[64, 2] "head.weight" = ["location": "none"] > {
    ["/stem/MatMul"] s = MatMul (x, "stem.weight")
    ["/h.0/norm/LayerNormalization"] n0 = LayerNormalization (s, "h.0.norm.weight", "h.0.norm.bias")
    ["/h.0/mlp/fc1/MatMul"] a0 = MatMul (n0, "h.0.mlp.fc1.weight")
    ["/h.0/mlp/act/Sigmoid"] b0 = Sigmoid (a0)
    ["/h.0/mlp/fc2/MatMul"] c0 = MatMul (b0, "h.0.mlp.fc2.weight")
    ["/h.0/Add"] r0 = Add (s, c0)
    ["/h.1/norm/LayerNormalization"] n1 = LayerNormalization (r0, "h.1.norm.weight", "h.1.norm.bias")
    ["/h.1/mlp/fc1/MatMul"] a1 = MatMul (n1, "h.1.mlp.fc1.weight")
    ["/h.1/mlp/act/Sigmoid"] b1 = Sigmoid (a1)
    ["/h.1/mlp/fc2/MatMul"] c1 = MatMul (b1, "h.1.mlp.fc2.weight")
    ["/h.1/Add"] r1 = Add (r0, c1)
    ["/norm/LayerNormalization"] z = LayerNormalization (r1, "norm.weight", "norm.bias")
    ["/head/MatMul"] y = MatMul (z, "head.weight")
  })";

}  // namespace onnxfit

// A network of two blocks, as checkpoints are put around.
#pragma once

namespace onnxfit {

// A batch of 256 through blocks of two layers of 64 × 64 with a sigmoid between them, then a head:
// 64 KiB a value.
inline constexpr char kTwoBlocks[] = R"(
  net (float[256, 64] x) => (float[256, 2] y)
  < float[64, 64] "h.0.fc.weight" = ["location": "none"],
    float[64, 64] "h.0.out.weight" = ["location": "none"],
    float[64, 64] "h.1.fc.weight" = ["location": "none"],
    float[64, 64] "h.1.out.weight" = ["location": "none"],
    float[64, 2] "head.weight" = ["location": "none"] > {
    ["/h.0/fc/MatMul"] a = MatMul (x, "h.0.fc.weight")
    ["/h.0/act/Sigmoid"] b = Sigmoid (a)
    ["/h.0/out/MatMul"] c = MatMul (b, "h.0.out.weight")
    ["/h.1/fc/MatMul"] d = MatMul (c, "h.1.fc.weight")
    ["/h.1/act/Sigmoid"] e = Sigmoid (d)
    ["/h.1/out/MatMul"] f = MatMul (e, "h.1.out.weight")
    ["/head/MatMul"] y = MatMul (f, "head.weight")
  })";

}  // namespace onnxfit

// The net of benchmarks/ways/deepspeed_zero.py.
#pragma once

#include <fmt/format.h>

#include <string>

namespace onnxfit {

// Four of x = x + Linear(4096, 1024)(ReLU()(Linear(1024, 4096)(x))), then Linear(1024, 10).
inline std::string ResidualNet() {
  std::string weights;
  std::string nodes;
  std::string last = "x";
  for (const char* l : {"0", "1", "2", "3"}) {
    weights += fmt::format(
        R"(float[4096, 1024] uw{0} = ["location": "none"], float[4096] ub{0} = ["location": "none"],
           float[1024, 4096] dw{0} = ["location": "none"], float[1024] db{0} = ["location": "none"],)",
        l);
    nodes += fmt::format(
        "u{0} = Gemm <transB = 1> ({1}, uw{0}, ub{0}) r{0} = Relu (u{0}) "
        "d{0} = Gemm <transB = 1> (r{0}, dw{0}, db{0}) x{0} = Add ({1}, d{0}) ",
        l, last);
    last = std::string("x") + l;
  }
  return fmt::format(
      R"(net (float[N, 1024] x) => (float[N, 10] y)
         < {} float[10, 1024] hw = ["location": "none"], float[10] hb = ["location": "none"] > {{
           {} y = Gemm <transB = 1> ({}, hw, hb)
         }})",
      weights, nodes, last);
}

}  // namespace onnxfit

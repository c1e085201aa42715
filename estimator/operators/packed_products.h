// Which kernel multiplies by weights of 4 bits.
#pragma once

#include <cstdint>

#include "estimator/base/device.h"
#include "estimator/base/tensor_type.h"

namespace onnxfit {

// x [rows, inputs] times a packed weight [outputs, inputs].
struct PackedProduct {
  DType type = DType::kUndefined;  // of x
  int64_t rows = 0;
  int64_t outputs = 0;
  int64_t inputs = 0;
};

// Whether one kernel reads the packed weight; else it is dequantized for a product of PyTorch's.
// Source: bitsandbytes 0.50.2, backends/cuda/ops.py (gemm_4bit, _gemm_4bit_use_custom_cuda), where
// the thresholds are measured, by card.
bool ReadsPacked(const PackedProduct& product, const DeviceProfile& device);

}  // namespace onnxfit

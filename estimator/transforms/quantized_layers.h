// Frozen linear layers as bitsandbytes keeps them: packed weights with their scales, and products
// that dequantize them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "estimator/base/settings.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Values in one block that share a scale; scales of 4-bit weights are quantized in turn, in 8 bits
// (double quantization), in blocks of their own.  bitsandbytes 0.50.2, nn/modules.py (Params4bit)
// and functional.py (quantize_4bit, quantize_blockwise).
inline constexpr int64_t kValuesInBlock = 64;
inline constexpr int64_t kScalesInBlock = 256;

// Packs the linear layers that settings.quantize picks, their weights frozen, and runs their
// products as bitsandbytes does.  Where nobody picks, all but the output embedding, what shares its
// weight, the last layer, and what models of `model_type` keep in fp32, as transformers 5.17.0 does
// (quantizers/base.py, get_keys_to_not_convert).
// Throws Error where no layer is picked.  O(calls × depth of modules).
// REQUIRES: names have their deaths.
void QuantizeLayers(Program& program, const TrainingSettings& settings, std::string_view model_type,
                    const std::string& path);

}  // namespace onnxfit

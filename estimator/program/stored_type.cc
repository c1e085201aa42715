#include "estimator/program/stored_type.h"

#include <fmt/format.h>

#include <cstdint>

#include "estimator/base/bytes.h"

namespace onnxfit {

// A file may say how its parameters were stored, not how they are trained: 16 bits are what
// models are published in, and what pure training in them would not keep.  The settings decide,
// in inference too, where fp32 is the larger; here they are told from the file.
std::optional<std::string> TellStoredType(const std::vector<TensorType>& parameters,
                                          Precision precision) {
  if (ParameterType(precision) != DType::kFloat32) return std::nullopt;
  int64_t numel_16_bit = 0;
  int64_t numel = 0;
  DType stored = DType::kUndefined;
  for (const TensorType& type : parameters) {
    if (!IsFloat(type.dtype)) continue;
    numel = CheckedAdd(numel, Numel(type.dims));
    if (BitsOf(type.dtype) != 16) continue;
    numel_16_bit = CheckedAdd(numel_16_bit, Numel(type.dims));
    stored = type.dtype;
  }
  if (numel_16_bit <= numel / 2) return std::nullopt;
  return fmt::format(
      "the file stores its parameters in {}; they are counted in fp32 (-p {}, if the model runs "
      "in what the file holds)",
      Name(stored), stored == DType::kFloat16 ? "fp16" : "bf16");
}

}  // namespace onnxfit

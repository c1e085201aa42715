#include "estimator/program/stored_type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <utility>

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

namespace {

// In the order in which types come first.
using BytesByType = std::vector<std::pair<DType, int64_t>>;

BytesByType SumByType(const std::vector<TensorType>& parameters) {
  BytesByType sums;
  for (const TensorType& type : parameters) {
    const auto same = std::ranges::find(sums, type.dtype, &BytesByType::value_type::first);
    int64_t& sum = same == sums.end() ? sums.emplace_back(type.dtype, 0).second : same->second;
    sum = CheckedAdd(sum, BytesOf(type));
  }
  return sums;
}

bool AreAllOf(DType type, const BytesByType& sums) {
  return std::ranges::all_of(sums, [&](const auto& sum) { return sum.first == type; });
}

std::string TextOf(const BytesByType& sums) {
  std::vector<std::string> parts;
  for (const auto& [type, bytes] : sums) {
    parts.push_back(fmt::format("{} {}", FormatBytes(bytes), Name(type)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::optional<std::string> TellKeptTypes(const std::vector<TensorType>& parameters,
                                         Precision precision) {
  const BytesByType sums = SumByType(parameters);
  if (AreAllOf(ParameterType(precision), sums)) return std::nullopt;
  return fmt::format("parameters have the types of the file: {}", TextOf(sums));
}

std::optional<std::string> TellCastTypes(const std::vector<TensorType>& parameters,
                                         Precision precision) {
  const BytesByType sums = SumByType(parameters);
  if (AreAllOf(ParameterType(precision), sums)) return std::nullopt;
  return fmt::format(
      "the file has {} of parameters, all counted in {} (without -p and --fp32-weights they keep "
      "their types)",
      TextOf(sums), Name(ParameterType(precision)));
}

}  // namespace onnxfit

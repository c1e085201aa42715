#include "estimator/base/tensor_type.h"

#include <iterator>
#include <string>

#include "estimator/base/bytes.h"

namespace onnxfit {
namespace {

enum class Family : uint8_t { kFloat, kInteger, kOther };

struct DTypeRow {
  std::string_view name;
  int bits;
  Family family;
};

// By number; source: onnx.proto (ONNX 1.23.2), enum TensorProto.DataType.
constexpr DTypeRow kDTypes[] = {
    {"undefined", 0, Family::kOther},       {"float32", 32, Family::kFloat},
    {"uint8", 8, Family::kInteger},         {"int8", 8, Family::kInteger},
    {"uint16", 16, Family::kInteger},       {"int16", 16, Family::kInteger},
    {"int32", 32, Family::kInteger},        {"int64", 64, Family::kInteger},
    {"string", 0, Family::kOther},          {"bool", 8, Family::kOther},
    {"float16", 16, Family::kFloat},        {"float64", 64, Family::kFloat},
    {"uint32", 32, Family::kInteger},       {"uint64", 64, Family::kInteger},
    {"complex64", 64, Family::kOther},      {"complex128", 128, Family::kOther},
    {"bfloat16", 16, Family::kFloat},       {"float8_e4m3fn", 8, Family::kFloat},
    {"float8_e4m3fnuz", 8, Family::kFloat}, {"float8_e5m2", 8, Family::kFloat},
    {"float8_e5m2fnuz", 8, Family::kFloat}, {"uint4", 4, Family::kInteger},
    {"int4", 4, Family::kInteger},          {"float4_e2m1fn", 4, Family::kFloat},
    {"float8_e8m0fnu", 8, Family::kFloat},  {"uint2", 2, Family::kInteger},
    {"int2", 2, Family::kInteger},          {"float6_e2m3", 6, Family::kFloat},
    {"float6_e3m2", 6, Family::kFloat},
};

const DTypeRow& RowOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return kDTypes[index < std::size(kDTypes) ? index : 0];
}

}  // namespace

std::string_view Name(DType dtype) { return RowOf(dtype).name; }
int BitsOf(DType dtype) { return RowOf(dtype).bits; }
bool IsFloat(DType dtype) { return RowOf(dtype).family == Family::kFloat; }
bool IsComplex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }
bool HasGradients(DType dtype) { return IsFloat(dtype) || IsComplex(dtype); }
bool IsInteger(DType dtype) { return RowOf(dtype).family == Family::kInteger; }

int64_t Numel(const Dims& dims) {
  int64_t numel = 1;
  for (const int64_t dim : dims) {
    if (dim == 0) return 0;
  }
  for (const int64_t dim : dims) numel = CheckedMul(numel, dim);
  return numel;
}

int64_t NumelOrHuge(const Dims& dims) {
  int64_t numel = 1;
  for (const int64_t dim : dims) {
    if (__builtin_mul_overflow(numel, dim, &numel)) return INT64_MAX;
  }
  return numel;
}

std::string ToString(const Dims& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

int64_t BytesOf(const TensorType& type) {
  const int bits = BitsOf(type.dtype);
  const int64_t numel = Numel(type.dims);
  if (bits >= 8) return CheckedMul(numel, bits / 8);
  return RoundUp(CheckedMul(numel, bits), 8) / 8;
}

std::string ToString(const TensorType& type) {
  return std::string(Name(type.dtype)) + ToString(type.dims);
}

}  // namespace onnxfit

// What a tensor is: element type and shape.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// Numbered as in ONNX's TensorProto.DataType, so that files need no translation.
enum class DType : uint8_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};

// "float32", "bfloat16", "int64" … as PyTorch writes them.
std::string_view Name(DType dtype);

// Bits of one element; 0 for strings and unknown types.
int BitsOf(DType dtype);

// Floating point.
bool IsFloat(DType dtype);
bool IsComplex(DType dtype);
// Whether a gradient may flow through it.
bool HasGradients(DType dtype);
bool IsInteger(DType dtype);  // signed or unsigned, bool not included

// Every dimension >= 0; {} is a scalar.
using Dims = std::vector<int64_t>;

// Product of `dims`; 1 for a scalar.  Throws Error on overflow.
int64_t Numel(const Dims& dims);
// The same; the highest of numbers where 64 bits do not hold it.
int64_t NumelOrHuge(const Dims& dims);

// "[8, 3, 224, 224]", "[]" for a scalar.
std::string ToString(const Dims& dims);

struct TensorType {
  DType dtype = DType::kUndefined;
  Dims dims = {};

  bool operator==(const TensorType&) const = default;
};

// A tensor as it lies in memory: elements from one index of a dimension to the next.
struct StridedType : TensorType {
  Dims strides = {};

  bool operator==(const StridedType&) const = default;
};

// Bytes of a dense tensor; whole bytes for types narrower than 8 bits.
// Throws Error on overflow.
int64_t BytesOf(const TensorType& type);

// "float32[8, 3, 224, 224]".
std::string ToString(const TensorType& type);

}  // namespace onnxfit

#include "estimator/base/error.h"
#include "estimator/onnx/onnx_model.h"

namespace onnxfit {
namespace {

// Which typed field holds the elements of a tensor; entries of the others are none of it.
// Source: onnx.proto (ONNX 1.23.2), message TensorProto.
int64_t TypedElements(const onnx::TensorProto& tensor) {
  switch (static_cast<DType>(tensor.data_type())) {
    case DType::kFloat32:
      return tensor.float_data_size();
    case DType::kComplex64:
      return tensor.float_data_size() / 2;
    case DType::kFloat64:
      return tensor.double_data_size();
    case DType::kComplex128:
      return tensor.double_data_size() / 2;
    case DType::kInt64:
      return tensor.int64_data_size();
    case DType::kUint32:
    case DType::kUint64:
      return tensor.uint64_data_size();
    case DType::kString:
      return tensor.string_data_size();
    default:
      return tensor.int32_data_size();
  }
}

// Types of less than a byte lie several to an entry.
bool HasAllElements(const onnx::TensorProto& tensor, const TensorType& type) {
  if (tensor.has_raw_data()) {
    return static_cast<int64_t>(tensor.raw_data().size()) == BytesOf(type);
  }
  const int64_t found = TypedElements(tensor);
  const int64_t expected = Numel(type.dims);
  const int bits = BitsOf(type.dtype);
  if (bits > 0 && bits < 8) return found >= (expected * bits + 7) / 8 && found <= expected;
  return found == expected;
}

}  // namespace

bool HasContents(const onnx::TensorProto& tensor) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL || tensor.has_segment()) return false;
  if (tensor.data_type() <= 0 || tensor.data_type() > static_cast<int>(DType::kFloat6E3M2)) {
    return false;
  }
  TensorType type{.dtype = static_cast<DType>(tensor.data_type()), .dims = {}};
  for (const int64_t dim : tensor.dims()) {
    if (dim < 0) return false;
    type.dims.push_back(dim);
  }
  try {
    return HasAllElements(tensor, type);
  } catch (const Error&) {  // a size that does not fit 63 bits
    return false;
  }
}

}  // namespace onnxfit

// The messages of onnx.proto and their fields, as a table for those who walk over a file
// without parsing it.  (ONNX is built on protobuf's lite runtime, which has no
// descriptors to ask.)
#pragma once

#include <cstdint>
#include <string_view>

namespace onnxfit {

enum class MessageKind : uint8_t {
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kFunction,
  kTraining,
  kTensor,
  kSparseTensor,
  kSegment,
  kValueInfo,
  kType,
  kTensorType,
  kSequenceType,
  kMapType,
  kOptionalType,
  kSparseType,
  kOpaqueType,
  kShape,
  kDimension,
  kStringEntry,
  kOpset,
  kAnnotation,
  kDevice,
  kNodeDevice,
  kSharding,
  kIntIntList,
  kShardedDim,
  kSimpleSharding,
};

enum class FieldKind : uint8_t {
  kUnknown,   // not in onnx.proto: skipped, as protobuf skips it
  kNumber,    // a varint
  kNumbers,   // repeated varints, packed or not
  kFloat,     // four bytes
  kFloats,    // repeated, packed or not
  kName,      // a string that identifies something
  kText,      // a string for people, or an attribute's
  kContents,  // elements of a tensor
  kMessage,
};

struct FieldRow {
  int number = 0;
  std::string_view name;
  FieldKind kind = FieldKind::kUnknown;
  MessageKind message = MessageKind::kModel;  // of kMessage
};

// Tensor's fields that the walk reads.
inline constexpr uint32_t kTensorDataType = 2;
inline constexpr uint32_t kTensorName = 8;
inline constexpr uint32_t kTensorRawData = 9;

// "NodeProto".
std::string_view NameOf(MessageKind message);

// The row of field `number`, of kind kUnknown where onnx.proto has none.  O(1).
const FieldRow& FieldOf(MessageKind message, uint32_t number);

}  // namespace onnxfit

// What walking over an ONNX file takes without parsing it: protobuf's wire format, and the fields
// of onnx.proto.  Internal to the room onnx/, and for tests that write files byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace onnxfit {

// --- Protobuf's wire format (protobuf.dev/programming-guides/encoding) ---------

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// One field of a message.  Offsets count bytes from the start of the file.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t tag = 0;    // where the field begins
  uint64_t begin = 0;  // where its value begins: after the tag, and the length if it has one
  uint64_t end = 0;    // where the next field begins

  uint64_t size() const { return end - begin; }
};

// Walks over the fields of the message in `file[begin, end)`.  Copies nothing and
// touches nothing but tags, lengths and varints; files may be larger than 2 GiB.
// Throws Error (without a file) for what is not wire format, `message` being the name
// of what was expected there.
class WireReader {
 public:
  WireReader(std::string_view file, uint64_t begin, uint64_t end, std::string_view message)
      : file_(file), at_(begin), end_(end), message_(message) {}

  // The next field into `field`; false at the end of the message.  O(1).
  bool Next(WireField& field);

  // The value of a varint field.
  uint64_t Varint(const WireField& field);

 private:
  uint64_t ReadVarint();
  void Take(WireField& field, uint64_t bytes);
  [[noreturn]] void FailAt(uint64_t at, std::string text) const;

  std::string_view file_;
  uint64_t at_;
  uint64_t end_;
  std::string_view message_;
};

// Appends `value` as a varint.
void AppendVarint(std::string& out, uint64_t value);

// Bytes that AppendVarint appends, 1 to 10.
int VarintSize(uint64_t value);

// --- The messages of onnx.proto and their fields -------------------------------

// A table, since ONNX is built on protobuf's lite runtime, which has no descriptors to ask.

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

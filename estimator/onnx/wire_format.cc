#include "estimator/onnx/wire_format.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr uint64_t kMaxFieldNumber = (1u << 29) - 1;

}  // namespace

bool WireReader::Next(WireField& field) {
  if (at_ >= end_) return false;
  field.tag = at_;
  const uint64_t tag = ReadVarint();
  const uint64_t number = tag >> 3;
  if (number == 0 || number > kMaxFieldNumber) {
    FailAt(field.tag, fmt::format("a field of {} was expected, found number {}", message_, number));
  }
  field.number = static_cast<uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      field.begin = at_;
      ReadVarint();
      field.end = at_;
      return true;
    case WireType::kFixed32:
      Take(field, 4);
      return true;
    case WireType::kFixed64:
      Take(field, 8);
      return true;
    case WireType::kLength:
      Take(field, ReadVarint());
      return true;
  }
  FailAt(field.tag,
         fmt::format("a field of {} was expected, found wire type {}", message_, tag & 7));
}

uint64_t WireReader::Varint(const WireField& field) {
  at_ = field.begin;
  return ReadVarint();
}

uint64_t WireReader::ReadVarint() {
  const uint64_t start = at_;
  uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    if (at_ >= end_) FailAt(start, fmt::format("{} ends in the middle of a number", message_));
    const auto byte = static_cast<uint8_t>(file_[at_++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  FailAt(start, fmt::format("a number of {} was expected, found one of more than {} bytes",
                            message_, kMaxVarintBytes));
}

void WireReader::Take(WireField& field, uint64_t bytes) {
  const uint64_t left = end_ - at_;
  if (bytes > left) {
    FailAt(field.tag, fmt::format("field {} of {} should have {} bytes, {} are left", field.number,
                                  message_, bytes, left));
  }
  field.begin = at_;
  at_ += bytes;
  field.end = at_;
}

void WireReader::FailAt(uint64_t at, std::string text) const {
  throw Error({.file = {},
               .where = fmt::format("byte {}", at),
               .text = std::move(text),
               .hint = "copy or export it again, it is damaged or cut off"});
}

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

int VarintSize(uint64_t value) {
  int bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

// --- The fields of onnx.proto --------------------------------------------------

namespace {

using enum FieldKind;
using M = MessageKind;

// Source: onnx/onnx.proto, ONNX 1.23.2 (IR version 14).
constexpr FieldRow kModelFields[] = {
    {1, "ir_version", kNumber},
    {2, "producer_name", kName},
    {3, "producer_version", kName},
    {4, "domain", kName},
    {5, "model_version", kNumber},
    {6, "doc_string", kText},
    {7, "graph", kMessage, M::kGraph},
    {8, "opset_import", kMessage, M::kOpset},
    {14, "metadata_props", kMessage, M::kStringEntry},
    {20, "training_info", kMessage, M::kTraining},
    {25, "functions", kMessage, M::kFunction},
    {26, "configuration", kMessage, M::kDevice},
};
constexpr FieldRow kGraphFields[] = {
    {1, "node", kMessage, M::kNode},
    {2, "name", kName},
    {5, "initializer", kMessage, M::kTensor},
    {10, "doc_string", kText},
    {11, "input", kMessage, M::kValueInfo},
    {12, "output", kMessage, M::kValueInfo},
    {13, "value_info", kMessage, M::kValueInfo},
    {14, "quantization_annotation", kMessage, M::kAnnotation},
    {15, "sparse_initializer", kMessage, M::kSparseTensor},
    {16, "metadata_props", kMessage, M::kStringEntry},
};
constexpr FieldRow kNodeFields[] = {
    {1, "input", kName},
    {2, "output", kName},
    {3, "name", kName},
    {4, "op_type", kName},
    {5, "attribute", kMessage, M::kAttribute},
    {6, "doc_string", kText},
    {7, "domain", kName},
    {8, "overload", kName},
    {9, "metadata_props", kMessage, M::kStringEntry},
    {10, "device_configurations", kMessage, M::kNodeDevice},
};
constexpr FieldRow kAttributeFields[] = {
    {1, "name", kName},
    {2, "f", kFloat},
    {3, "i", kNumber},
    {4, "s", kText},
    {5, "t", kMessage, M::kTensor},
    {6, "g", kMessage, M::kGraph},
    {7, "floats", kFloats},
    {8, "ints", kNumbers},
    {9, "strings", kText},
    {10, "tensors", kMessage, M::kTensor},
    {11, "graphs", kMessage, M::kGraph},
    {13, "doc_string", kText},
    {14, "tp", kMessage, M::kType},
    {15, "type_protos", kMessage, M::kType},
    {20, "type", kNumber},
    {21, "ref_attr_name", kName},
    {22, "sparse_tensor", kMessage, M::kSparseTensor},
    {23, "sparse_tensors", kMessage, M::kSparseTensor},
};
constexpr FieldRow kFunctionFields[] = {
    {1, "name", kName},
    {4, "input", kName},
    {5, "output", kName},
    {6, "attribute", kName},
    {7, "node", kMessage, M::kNode},
    {8, "doc_string", kText},
    {9, "opset_import", kMessage, M::kOpset},
    {10, "domain", kName},
    {11, "attribute_proto", kMessage, M::kAttribute},
    {12, "value_info", kMessage, M::kValueInfo},
    {13, "overload", kName},
    {14, "metadata_props", kMessage, M::kStringEntry},
};
constexpr FieldRow kTrainingFields[] = {
    {1, "initialization", kMessage, M::kGraph},
    {2, "algorithm", kMessage, M::kGraph},
    {3, "initialization_binding", kMessage, M::kStringEntry},
    {4, "update_binding", kMessage, M::kStringEntry},
};
constexpr FieldRow kTensorFields[] = {
    {1, "dims", kNumbers},
    {kTensorDataType, "data_type", kNumber},
    {3, "segment", kMessage, M::kSegment},
    {4, "float_data", kContents},
    {5, "int32_data", kContents},
    {6, "string_data", kContents},
    {7, "int64_data", kContents},
    {8, "name", kName},
    {9, "raw_data", kContents},
    {10, "double_data", kContents},
    {11, "uint64_data", kContents},
    {12, "doc_string", kText},
    {13, "external_data", kMessage, M::kStringEntry},
    {14, "data_location", kNumber},
    {16, "metadata_props", kMessage, M::kStringEntry},
};
constexpr FieldRow kSparseTensorFields[] = {
    {1, "values", kMessage, M::kTensor},
    {2, "indices", kMessage, M::kTensor},
    {3, "dims", kNumbers},
};
constexpr FieldRow kSegmentFields[] = {{1, "begin", kNumber}, {2, "end", kNumber}};
constexpr FieldRow kValueInfoFields[] = {
    {1, "name", kName},
    {2, "type", kMessage, M::kType},
    {3, "doc_string", kText},
    {4, "metadata_props", kMessage, M::kStringEntry},
};
constexpr FieldRow kTypeFields[] = {
    {1, "tensor_type", kMessage, M::kTensorType},
    {4, "sequence_type", kMessage, M::kSequenceType},
    {5, "map_type", kMessage, M::kMapType},
    {6, "denotation", kName},
    {7, "opaque_type", kMessage, M::kOpaqueType},
    {8, "sparse_tensor_type", kMessage, M::kSparseType},
    {9, "optional_type", kMessage, M::kOptionalType},
};
constexpr FieldRow kTensorTypeFields[] = {
    {1, "elem_type", kNumber},
    {2, "shape", kMessage, M::kShape},
};
constexpr FieldRow kElementTypeFields[] = {{1, "elem_type", kMessage, M::kType}};
constexpr FieldRow kMapTypeFields[] = {
    {1, "key_type", kNumber},
    {2, "value_type", kMessage, M::kType},
};
constexpr FieldRow kOpaqueTypeFields[] = {{1, "domain", kName}, {2, "name", kName}};
constexpr FieldRow kShapeFields[] = {{1, "dim", kMessage, M::kDimension}};
constexpr FieldRow kDimensionFields[] = {
    {1, "dim_value", kNumber},
    {2, "dim_param", kName},
    {3, "denotation", kName},
};
constexpr FieldRow kStringEntryFields[] = {{1, "key", kName}, {2, "value", kText}};
constexpr FieldRow kOpsetFields[] = {{1, "domain", kName}, {2, "version", kNumber}};
constexpr FieldRow kAnnotationFields[] = {
    {1, "tensor_name", kName},
    {2, "quant_parameter_tensor_names", kMessage, M::kStringEntry},
};
constexpr FieldRow kDeviceFields[] = {
    {1, "name", kName},
    {2, "num_devices", kNumber},
    {3, "device", kName},
};
constexpr FieldRow kNodeDeviceFields[] = {
    {1, "configuration_id", kName},
    {2, "sharding_spec", kMessage, M::kSharding},
    {3, "pipeline_stage", kNumber},
};
constexpr FieldRow kShardingFields[] = {
    {1, "tensor_name", kName},
    {2, "device", kNumbers},
    {3, "index_to_device_group_map", kMessage, M::kIntIntList},
    {4, "sharded_dim", kMessage, M::kShardedDim},
};
constexpr FieldRow kIntIntListFields[] = {{1, "key", kNumber}, {2, "value", kNumbers}};
constexpr FieldRow kShardedDimFields[] = {
    {1, "axis", kNumber},
    {2, "simple_sharding", kMessage, M::kSimpleSharding},
};
constexpr FieldRow kSimpleShardingFields[] = {
    {1, "dim_value", kNumber},
    {2, "dim_param", kName},
    {3, "num_shards", kNumber},
};

struct MessageRow {
  MessageKind message;
  std::string_view name;
  std::span<const FieldRow> fields;
};

// In the order of MessageKind.
constexpr MessageRow kMessages[] = {
    {M::kModel, "ModelProto", kModelFields},
    {M::kGraph, "GraphProto", kGraphFields},
    {M::kNode, "NodeProto", kNodeFields},
    {M::kAttribute, "AttributeProto", kAttributeFields},
    {M::kFunction, "FunctionProto", kFunctionFields},
    {M::kTraining, "TrainingInfoProto", kTrainingFields},
    {M::kTensor, "TensorProto", kTensorFields},
    {M::kSparseTensor, "SparseTensorProto", kSparseTensorFields},
    {M::kSegment, "TensorProto.Segment", kSegmentFields},
    {M::kValueInfo, "ValueInfoProto", kValueInfoFields},
    {M::kType, "TypeProto", kTypeFields},
    {M::kTensorType, "TypeProto.Tensor", kTensorTypeFields},
    {M::kSequenceType, "TypeProto.Sequence", kElementTypeFields},
    {M::kMapType, "TypeProto.Map", kMapTypeFields},
    {M::kOptionalType, "TypeProto.Optional", kElementTypeFields},
    {M::kSparseType, "TypeProto.SparseTensor", kTensorTypeFields},
    {M::kOpaqueType, "TypeProto.Opaque", kOpaqueTypeFields},
    {M::kShape, "TensorShapeProto", kShapeFields},
    {M::kDimension, "TensorShapeProto.Dimension", kDimensionFields},
    {M::kStringEntry, "StringStringEntryProto", kStringEntryFields},
    {M::kOpset, "OperatorSetIdProto", kOpsetFields},
    {M::kAnnotation, "TensorAnnotation", kAnnotationFields},
    {M::kDevice, "DeviceConfigurationProto", kDeviceFields},
    {M::kNodeDevice, "NodeDeviceConfigurationProto", kNodeDeviceFields},
    {M::kSharding, "ShardingSpecProto", kShardingFields},
    {M::kIntIntList, "IntIntListEntryProto", kIntIntListFields},
    {M::kShardedDim, "ShardedDimProto", kShardedDimFields},
    {M::kSimpleSharding, "SimpleShardedDimProto", kSimpleShardingFields},
};

constexpr bool InOrder() {
  size_t place = 0;
  for (const MessageRow& row : kMessages) {
    if (static_cast<size_t>(row.message) != place++) return false;
  }
  return true;
}
static_assert(InOrder());

constexpr size_t kFieldNumbers = 32;  // larger than any number above
using FieldsByNumber = std::array<FieldRow, kFieldNumbers>;

// The rows again, at the place of their number; the last place stays unknown.
constexpr std::array<FieldsByNumber, std::size(kMessages)> IndexFields() {
  std::array<FieldsByNumber, std::size(kMessages)> index{};
  for (const MessageRow& message : kMessages) {
    FieldsByNumber& fields = index[static_cast<size_t>(message.message)];
    for (const FieldRow& row : message.fields) fields[static_cast<size_t>(row.number)] = row;
  }
  return index;
}
constexpr auto kFields = IndexFields();

}  // namespace

std::string_view NameOf(MessageKind message) {
  return kMessages[static_cast<size_t>(message)].name;
}

const FieldRow& FieldOf(MessageKind message, uint32_t number) {
  const FieldsByNumber& fields = kFields[static_cast<size_t>(message)];
  return fields[number < kFieldNumbers ? number : kFieldNumbers - 1];
}

}  // namespace onnxfit

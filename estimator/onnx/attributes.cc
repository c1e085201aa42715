#include "estimator/onnx/attributes.h"

namespace onnxfit {
namespace {

AttributeValue ValueOf(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return proto.i();
    case onnx::AttributeProto::FLOAT:
      return static_cast<double>(proto.f());
    case onnx::AttributeProto::STRING:
      return std::string_view(proto.s());
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string_view>(proto.strings().begin(), proto.strings().end());
    default:
      return std::monostate();
  }
}

}  // namespace

Attribute ToAttribute(const onnx::AttributeProto& proto) { return {proto.name(), ValueOf(proto)}; }

void AppendMetadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries,
                    Metadata& metadata) {
  for (const onnx::StringStringEntryProto& entry : entries) {
    metadata.emplace_back(entry.key(), entry.value());
  }
}

}  // namespace onnxfit

// Attributes and metadata as the file has them.  Internal to the room onnx/.
#pragma once

#include <google/protobuf/repeated_field.h>
#include <onnx/onnx_pb.h>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// The views point into `proto`.
Attribute ToAttribute(const onnx::AttributeProto& proto);

void AppendMetadata(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& entries,
                    Metadata& metadata);

}  // namespace onnxfit

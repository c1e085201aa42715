// What ONNX knows of its operators.  Registering all of its schemas costs 10 to 16 ms,
// more than everything else together, so each is made when it is first asked for.
#pragma once

#include <onnx/defs/schema.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace onnxfit {

// The schema of `op_type` in force at `opset`, or null where ONNX has none: another
// domain than "" (or "ai.onnx", the same), an unknown name, an opset before its first.
// The result lives as long as the process.  O(log operators); microseconds to make one.
// Thread-safe.
const onnx::OpSchema* FindSchema(std::string_view domain, std::string_view op_type, int64_t opset);

// The same, or else the oldest: what an operator of ONNX's own domain takes whose opset is too low
// for it, as optimizers of files write LayerNormalization.  Null for an unknown name.
const onnx::OpSchema* NearestSchema(std::string_view op_type, int64_t opset);

// FindSchema in ONNX's own interface, for its functions that ask a registry.
const onnx::ISchemaRegistry& SchemasOnDemand();

}  // namespace onnxfit

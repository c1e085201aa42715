// What ONNX knows of its operators.  Registering all of its schemas costs 10 to 16 ms,
// more than everything else together, so each is made when it is first asked for.
// Internal to the room onnx/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnx {
class ISchemaRegistry;
class OpSchema;
class TypeProto;
}  // namespace onnx

namespace onnxfit {

// True for ONNX's own domain, by either of its names.
inline bool IsOnnxDomain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

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

// --- How many inputs and outputs a node may have, and of what kind -------------

// "" where `node` has as many inputs and outputs as its operator takes, and none is left out that
// it cannot do without; else what was expected and found.  Everything behind the loader rests on
// that: a node whose op_type is "MatMul" has two inputs.  Of operators that ONNX does not know
// nothing is checked.  `opset` is that of ONNX's own domain.
std::string WrongSignature(const Node& node, int64_t opset);

// The kinds that an operator's inputs may be of, by ONNX's lists of types: floats, integers, bools,
// strings, complex numbers, or lists of tensors.  No finer than that, and what the newest opset
// takes is taken in all: files are ahead of their opset, with bfloat16 in Conv of opset 11.  And as
// PyTorch computes them, its exporter writes CumSum of bools and Exp of integers: bools and
// integers pass for one another, and for floats where an operator has one input.
class InputKinds {
 public:
  InputKinds() = default;  // any
  // Of an operator of ONNX's own domain.  Microseconds.
  InputKinds(std::string_view op_type, int64_t opset);

  // "" where input `i` may be of `type`, or nothing is known of either; else what was expected and
  // found.
  std::string Wrong(size_t i, const onnx::TypeProto& type) const;

 private:
  std::vector<unsigned> taken_;  // by input, a bit for each kind; none: any
  bool is_open_ = false;         // the last stands for all behind it
};

}  // namespace onnxfit

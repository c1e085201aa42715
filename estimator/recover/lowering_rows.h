// From ONNX nodes to ATen calls, one row an operator.  Internal to the room recover/.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "estimator/onnx/graph.h"
#include "estimator/recover/unit_writer.h"

namespace onnxfit {

inline constexpr int8_t kOptional = -1;
inline constexpr int8_t kAnyRank = -2;

struct LoweringRow {
  std::string_view op_type;
  std::string_view aten;
  void (*lower)(UnitWriter&, const Node&, std::string_view aten);
  std::string_view aten_of_scalar = {};        // where one operand is a number
  std::string_view aten_of_first_scalar = {};  // where it is the first: 1 / x
  // What ONNX does not check: the dimensions of inputs that the row needs, beside its first
  // result.  A node without them is an unknown operator.
  std::array<int8_t, 4> ranks = {kOptional, kOptional, kOptional, kOptional};
};

// The calls of `node` by its row, or as an unknown operator.
void LowerNode(UnitWriter& unit, const Node& node);

// The row of an operator of ONNX's own domain, or null (lowering_table.cc).  O(1).
const LoweringRow* FindLowering(std::string_view op_type);

// The row of an operator that is several calls, or null (lowering_fused.cc).  O(rows).
const LoweringRow* FindFusedLowering(std::string_view op_type);

// --- What rows do --------------------------------------------------------------------------

// kNoValue where the node has fewer inputs.
ValueId InputOf(const Node& node, size_t i);

// The first input is the tensor, and what else the node has are settings:
void LowerUnary(UnitWriter& unit, const Node& node, std::string_view aten);
// every input is a tensor.
void LowerAll(UnitWriter& unit, const Node& node, std::string_view aten);

// A batch norm of `module`, whose tensors the file does not hold, that makes `result` of `input`.
void EmitBatchNorm(UnitWriter& unit, NameId input, const std::string& module, ValueId result);

// Views and parts of tensors (lowering_views.cc).
//
// Where a call writes over a view, x of "F.relu_(x.flatten(1))", a graph without such writes makes
// the base anew of its result, and of that the view: two views on the call's own line, which shows
// none.  PyTorch makes neither.
void LowerReshape(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSplit(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSlice(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSplitToSequence(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerSequenceAt(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerGather(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerTopK(UnitWriter& unit, const Node& node, std::string_view aten);
void LowerScatter(UnitWriter& unit, const Node& node, std::string_view aten);

}  // namespace onnxfit

#include "estimator/recover/lowering.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/program/like.h"
#include "estimator/recover/lowering_rows.h"

namespace onnxfit {
namespace {

// The calls in front of one that several nodes are; their results.
std::vector<NameId> EmitHidden(UnitWriter& unit, const Rewritten& call) {
  const ValueId first =
      call.results.empty() ? unit.bound().At(call.last).outputs[0] : call.results[0];
  const std::string_view result = unit.bound().NameOf(first);
  std::vector<NameId> results;
  for (const HiddenCall& hidden : call.before) {
    std::vector<NameId> inputs;
    for (const HiddenCall::Operand& operand : hidden.inputs) {
      inputs.push_back(operand.hidden < 0 ? unit.TensorOf(operand.value)
                                          : results[Index(operand.hidden)]);
    }
    const TensorType type = hidden.as_written ? hidden.type : unit.WithPrecision(hidden.type);
    std::string name = std::string(result) + "." + std::string(hidden.aten);
    results.push_back(
        unit.Make(hidden.aten, std::move(inputs), std::move(name), type, hidden.ints));
  }
  return results;
}

// A number is no tensor: x[a:b] = 2.  A list of one is, as an index: x[:, [2]].
NameId OperandOf(UnitWriter& unit, ValueId value) {
  const bool is_number = unit.values().IsHost(value) && unit.TypeOf(value).dims.empty();
  return is_number ? kNoName : unit.TensorOf(value);
}

std::vector<NameId> OperandsOf(UnitWriter& unit, const Rewritten& call) {
  const std::vector<NameId> hidden = EmitHidden(unit, call);
  std::vector<NameId> operands;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const auto takes_place = [&](const HiddenCall& before) {
      return before.takes_place_of == static_cast<int>(i);
    };
    const auto before = std::ranges::find_if(call.before, takes_place);
    operands.push_back(before == call.before.end() ? OperandOf(unit, call.inputs[i])
                                                   : hidden[Index(before - call.before.begin())]);
  }
  return operands;
}

// Several nodes that are one call.
void LowerCall(UnitWriter& unit, const Rewritten& call) {
  const ValueId output = unit.bound().At(call.last).outputs[0];
  if (call.only_in_training && !unit.trains()) return unit.Alias(output, call.inputs[0]);
  std::vector<NameId> inputs = OperandsOf(unit, call);
  std::vector<int64_t> ints = call.ints;
  if (call.dropout != kNoNode) ints[0] = unit.DropsOut(unit.bound().At(call.dropout)) ? 1 : 0;
  std::vector<NameId> results;
  for (const ValueId result : call.results) results.push_back(unit.NewResult(result));
  if (results.empty()) results.push_back(unit.NewResult(output));
  if (call.in_compute_type) {
    unit.program().values[Index(results[0])].type.dtype = ComputeType(unit.settings().precision);
  }
  const bool is_other = !unit.trains() && !call.aten_in_eval.empty();
  unit.Emit(is_other ? call.aten_in_eval : call.aten, std::move(inputs), std::move(results),
            std::move(ints));
}

// The product becomes the batch norm, and the sum is its result.
void LowerNorm(UnitWriter& unit, const AffineBatchNorm& norm) {
  const ValueId product = unit.bound().At(norm.scale).outputs[0];
  EmitBatchNorm(unit, unit.TensorOf(norm.input), norm.module, product);
  if (norm.shift != kNoNode) unit.Alias(unit.bound().At(norm.shift).outputs[0], product);
}

bool FitsRow(const UnitWriter& unit, const Node& node, const LoweringRow& row) {
  const ValueId result = node.outputs.empty() ? kNoValue : node.outputs[0];
  const bool has_result = result != kNoValue && unit.TypeOf(result).dtype != DType::kUndefined;
  for (size_t i = 0; i < row.ranks.size(); ++i) {
    if (row.ranks[i] == kOptional) continue;
    const ValueId input = InputOf(node, i);
    const bool has_rank =
        input != kNoValue &&
        (row.ranks[i] == kAnyRank || unit.TypeOf(input).dims.size() == Index(row.ranks[i]));
    if (!has_rank || !has_result) return false;
  }
  return true;
}

}  // namespace

void LowerNode(UnitWriter& unit, const Node& node) {
  const LoweringRow* row = FindLowering(node.op_type);
  if (row == nullptr) row = FindFusedLowering(node.op_type);
  if (row == nullptr || !FitsRow(unit, node, *row)) return unit.LowerUnknown(node);
  row->lower(unit, node, NamedBy(unit.TargetOf(node), row->aten));
}

void LowerUnit(UnitWriter& writer, const Unit& unit) {
  switch (unit.kind) {
    case UnitKind::kCall:
      return LowerCall(writer, *unit.call);
    case UnitKind::kBatchNorm:
      return LowerNorm(writer, *unit.norm);
    case UnitKind::kNode:
      return LowerNode(writer, writer.bound().At(unit.at));
    case UnitKind::kPutBack:
    case UnitKind::kNumbers:
      return;
  }
}

}  // namespace onnxfit

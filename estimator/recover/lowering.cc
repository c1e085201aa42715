#include "estimator/recover/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/base/warnings.h"
#include "estimator/program/like.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// --- Tensors that the file holds as numbers and PyTorch makes on the device -----------------

// A range of integers, named for the call that made it last.
bool IsFolded(const BoundGraph& bound, ValueId value, std::string_view call) {
  const Value& stored = bound.graph().values[Index(value)];
  const KnownTensor* known = bound.Known(value);
  if (stored.initializer < 0 || known == nullptr || !stored.name.starts_with(call)) return false;
  if (known->elements().empty() || bound.DimsOf(value).empty()) return false;
  int64_t next = known->elements()[0];
  return std::ranges::all_of(known->elements(), [&](int64_t at) { return at == next++; });
}

// That of an earlier line of the caller's forward, which made the argument that its line passes to
// the running module call, "pos" of "x = self.wpe(pos)".  The unit's own where it passes an
// expression, and where the module has made calls already: torch.arange within F.one_hot.
CallPlace PlaceOfArgument(const UnitWriter& unit) {
  CallPlace place = unit.place();
  Program& program = unit.program();
  const size_t depth = program.modules.DepthOf(place.module);
  const bool runs = !program.calls.empty() &&
                    program.modules.Shared(program.calls.back().module, place.module) == depth;
  if (depth < 2 || place.frames.size() < depth || runs) return place;
  const StatementId line = place.frames[depth - 2];
  if (line == kNoStatement) return place;
  const std::string argument =
      program.source.At(line).ArgumentTo(program.modules.NameOf(place.module));
  if (argument.empty()) return place;
  place.module = program.modules.CallerOf(place.module);
  place.frames.resize(depth - 2);
  place.frames.push_back(
      program.source.PutBack({.line = 1, .targets = {argument}, .callee = "torch.arange"}));
  return place;
}

// What the running line, "x = tok_emb + pos_emb", calls `value`; "" where that is not known.
std::string NameInLine(const UnitWriter& unit, ValueId value) {
  const std::vector<StatementId>& frames = unit.place().frames;
  const bool has_line = !frames.empty() && frames.back() != kNoStatement;
  if (!has_line || frames.size() != unit.program().modules.DepthOf(unit.place().module)) return "";
  const auto& [left, right] = unit.program().source.At(frames.back()).operands;
  const std::span<const NodeId> readers = unit.bound().AllReadersOf(value);
  if (readers.empty()) return "";
  const std::vector<ValueId>& read = unit.bound().At(readers[0]).inputs;
  if (read.size() != 2) return "";
  return read[0] == value ? left : right;
}

// pos_emb = self.table(torch.arange(n)), a line before the one that reads pos_emb.
NameId EmbedPositions(UnitWriter& unit, ValueId value, const std::string& table) {
  Program& program = unit.program();
  const std::string name = NameInLine(unit, value);
  const std::string module(ParentOf(table));
  CallPlace caller = unit.place();
  if (!name.empty()) {
    const std::string called(ChildOf(module));
    caller.frames.back() = program.source.PutBack({.line = 1,
                                                   .targets = {name},
                                                   .callee = "self." + called,
                                                   .own_call = called,
                                                   .module_calls = 1});
  }
  CallPlace own = caller;
  own.module = program.modules.Enter(caller.module, module);
  if (!name.empty()) {
    own.frames.push_back(
        program.source.PutBack({.line = 1, .returns = true, .callee = "F.embedding"}));
  }
  const TensorType positions = {DType::kInt64, {unit.TypeOf(value).dims[0]}};
  const NameId rows = unit.At(std::move(caller)).Make("constant", {}, table + ".arange", positions);
  const NameId made = unit.NewResult(value);
  unit.At(std::move(own)).Emit("embedding", {unit.values().LostTensor(table), rows}, {made});
  return made;
}

// position_ids = torch.arange(n) + past, a line of the caller's, then position_ids + offset
// (transformers 5.17, BartLearnedPositionalEmbedding).
NameId CountPositions(UnitWriter& unit, ValueId value) {
  Program& program = unit.program();
  CallPlace caller = unit.place();
  caller.module = program.modules.CallerOf(caller.module);
  caller.frames = {
      program.source.PutBack({.line = 1, .targets = {"position_ids"}, .callee = "torch.arange"})};
  UnitWriter before = unit.At(std::move(caller));
  const std::string name(unit.bound().NameOf(value));
  const NameId range = before.Make("constant", {}, name + ".arange", unit.TypeOf(value));
  const NameId ids = before.Make("add.Scalar", {range}, name + ".position_ids", unit.TypeOf(value));
  const NameId made = unit.NewResult(value);
  unit.Emit("add.Scalar", {ids}, {made});
  return made;
}

// At the unit's place or its caller's.
NameId MakeConstant(UnitWriter unit, ValueId value) {
  if (IsFolded(unit.bound(), value, "add_")) return CountPositions(unit, value);
  const auto& table_rows = unit.roles().table_rows;
  if (table_rows.has_value() && table_rows->first == value) {
    return EmbedPositions(unit, value, table_rows->second);
  }
  const NameId made = unit.NewResult(value);
  const bool is_counted = IsFolded(unit.bound(), value, "unsqueeze");
  if (is_counted || IsFolded(unit.bound(), value, "arange")) unit = unit.At(PlaceOfArgument(unit));
  if (!is_counted) {
    unit.Emit("constant", {}, {made});
    return made;
  }
  // (torch.arange(n) + past).unsqueeze(0), as transformers' decoders count (5.17)
  const NameId range = unit.Make(
      "constant", {}, unit.program().values[Index(made)].name + ".arange", unit.TypeOf(value));
  unit.Emit("add.Scalar", {range}, {made});
  return made;
}

// --- Units ----------------------------------------------------------------------------------

// What x has been cast back to: outside of autocast the type that the model has.  A residual stream
// that is kept in fp32 is cast for its norms by lines of which a file in fp32 has nothing.
bool IsCastToOwnType(const UnitWriter& unit, const HiddenCall& hidden) {
  return hidden.aten == "type_as" && AutocastType(unit.settings().precision) == DType::kUndefined;
}

// The calls in front of one that several nodes are; their results.
std::vector<NameId> EmitHidden(UnitWriter& unit, const Rewritten& call) {
  if (call.before.empty()) return {};
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
    const std::string_view aten = IsCastToOwnType(unit, hidden) ? "to" : hidden.aten;
    if (aten != hidden.aten) inputs.resize(1);
    std::string name = std::string(result) + "." + std::string(aten);
    results.push_back(unit.Make(aten, std::move(inputs), std::move(name), type, hidden.ints));
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
  const bool is_none = call.aten == kNoCall || (call.only_in_training && !unit.trains());
  if (is_none) return unit.Alias(output, call.inputs[0]);
  if (LowerByLine(unit, call)) return;
  std::vector<NameId> inputs = OperandsOf(unit, call);
  std::vector<int64_t> ints = call.ints;
  if (call.dropout != kNoNode) ints[0] = unit.DropsOut(unit.bound().At(call.dropout)) ? 1 : 0;
  std::vector<NameId> results;
  for (const ValueId result : call.results) {
    results.push_back(result == kNoValue ? kNoName : unit.NewResult(result));
  }
  if (results.empty()) results.push_back(unit.NewResult(output));
  if (call.in_compute_type) {
    unit.program().values[Index(results[0])].type.dtype = ComputeType(unit.settings().precision);
  }
  if (call.own_type != DType::kUndefined) {
    unit.program().values[Index(results[0])].type.dtype = call.own_type;
  }
  if (call.aten == kUnknownOp) {
    return unit.EmitUnknown(unit.TargetOf(unit.bound().At(call.last)), std::move(inputs),
                            std::move(results));
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

// --- The writer -----------------------------------------------------------------------------

Recovery::Recovery(const Findings& found, const Roles& roles_of_tensors,
                   const TrainingSettings& settings)
    : bound(found.bound),
      roles(roles_of_tensors),
      writer(settings, bound.graph().path),
      values(bound, roles_of_tensors, writer),
      outside_autocast(found.bodies.outside_autocast) {
  writer.program().modules = bound.metadata().modules;
  writer.program().source = bound.metadata().source;
  for (const FoldedBatchNorm& norm : roles.folded) folded[norm.convolution] = &norm;
}

CallPlace UnitWriter::Beside(const std::string& name) const {
  CallPlace beside = place_;
  ModuleTree& modules = program().modules;
  const bool is_named = place_.module != kOutside && !modules.NameOf(place_.module).empty();
  if (is_named) beside.module = modules.Enter(modules.CallerOf(place_.module), name);
  return beside;
}

std::string_view UnitWriter::TargetOf(const Node& node) const {
  return bound().metadata().TargetOf(bound().IdOf(node));
}

const FoldedBatchNorm* UnitWriter::FoldedInto(const Node& node) const {
  const auto found = recovery_->folded.find(bound().IdOf(node));
  return found == recovery_->folded.end() ? nullptr : found->second;
}

// With p = 0 it returns its input (aten/src/ATen/native/Dropout.cpp, pytorch v2.6.0).
bool UnitWriter::DropsOut(const Node& node) const {
  return trains() && (node.inputs.size() < 2 || values().KnownNumber(node.inputs[1]) != 0.0);
}

NameId UnitWriter::TensorOf(ValueId value) {
  if (value == kNoValue) return kNoName;
  if (const NameId name = values().NameOf(value); name != kNoName) return name;
  WarnOfFurtherResult(value);
  const NameId viewed = values().ViewedBy(value);
  if (viewed == kNoName) return MakeConstant(*this, value);
  const NameId made = NewResult(value);
  const size_t rank = program().values[Index(viewed)].type.dims.size();
  Emit(rank == TypeOf(value).dims.size() ? "slice" : "view", {viewed}, {made});
  return made;
}

// A further result of an operator (a mask, indices), of which its row knows nothing.
void UnitWriter::WarnOfFurtherResult(ValueId value) {
  const NodeId producer = graph().values[Index(value)].producer;
  if (values().IsHost(value) || producer == kNoNode) return;
  const std::string_view op = bound().At(producer).op_type;
  if (op == "Constant" || !recovery_->further_results.emplace(op).second) return;
  program().warnings.push_back(
      {warning::kUnknownOperator,
       fmt::format("a further result of {} is read: it is taken as a {}", op,
                   trains() ? "tensor without a history" : "new tensor")});
}

NameId UnitWriter::NewResult(ValueId value) {
  if (value == kNoValue) return kNoName;
  const NameId name =
      NewName(std::string(graph().values[Index(value)].name), WithPrecision(TypeOf(value)));
  values().Bind(value, name);
  return name;
}

void UnitWriter::Alias(ValueId result, ValueId value) {
  if (result == kNoValue) return;
  if (values().IsNumber(value)) return values().TakeAsNumber(result);
  values().Alias(result, value, TensorOf(value));
}

CallPlace UnitWriter::WithAutocast() const {
  CallPlace place = place_;
  place.leaves_autocast = place.leaves_autocast || recovery_->outside_autocast.contains(
                                                       program().modules.PathOf(place.module));
  return place;
}

void UnitWriter::Emit(std::string_view op, std::vector<NameId> inputs, std::vector<NameId> outputs,
                      std::vector<int64_t> ints) {
  ProgramWriter& writer = recovery_->writer;
  if (recovery_->outside_autocast.empty()) {
    return writer.Emit(place_, op, std::move(inputs), std::move(outputs), std::move(ints));
  }
  writer.Emit(WithAutocast(), op, std::move(inputs), std::move(outputs), std::move(ints));
}

NameId UnitWriter::Make(std::string_view op, std::vector<NameId> inputs, std::string name,
                        const TensorType& type, std::vector<int64_t> ints) {
  const NameId made = NewName(std::move(name), type);
  Emit(op, std::move(inputs), {made}, std::move(ints));
  return made;
}

void UnitWriter::LowerUnknown(const Node& node) {
  std::vector<NameId> inputs;
  for (const ValueId value : node.inputs) {
    if (value != kNoValue && !values().IsHost(value)) inputs.push_back(TensorOf(value));
  }
  std::vector<NameId> outputs;
  for (const ValueId value : node.outputs) {
    if (value != kNoValue) outputs.push_back(NewResult(value));
  }
  EmitUnknown(node.op_type, std::move(inputs), std::move(outputs));
}

void UnitWriter::EmitUnknown(std::string_view name, std::vector<NameId> inputs,
                             std::vector<NameId> outputs) {
  recovery_->writer.EmitUnknown(WithAutocast(), name, std::move(inputs), std::move(outputs));
}

}  // namespace onnxfit

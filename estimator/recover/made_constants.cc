// Tensors that the file holds as numbers and PyTorch makes on the device.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/module_names.h"
#include "estimator/recover/unit_writer.h"

namespace onnxfit {
namespace {

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
// expression.
CallPlace PlaceOfArgument(const UnitWriter& unit) {
  CallPlace place = unit.place();
  Program& program = unit.program();
  const size_t depth = program.modules.DepthOf(place.module);
  if (depth < 2 || place.frames.size() < depth) return place;
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

}  // namespace

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

}  // namespace onnxfit

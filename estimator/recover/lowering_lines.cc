// Calls that run otherwise than the file says, by the lines that they were made in.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/source_statement.h"
#include "estimator/recover/lowering.h"

namespace onnxfit {
namespace {

// Whether the module of `call` casts what its norm is given to the type of the autocast around it,
// which the norm leaves.
bool IsInCastNorm(const UnitWriter& unit) {
  return unit.LeavesAutocast() &&
         CastsNormToAutocast(unit.program().modules.ClassOf(unit.place().module));
}

// Whether a line on the way to `call` casts to the type of the autocast around it, if there is one.
bool IsCastFirst(const UnitWriter& unit, const Rewritten& call) {
  const bool is_norm = call.aten == "layer_norm" || call.aten == "group_norm";
  if (!is_norm || !call.results.empty()) return false;
  if (AutocastType(unit.settings().precision) == DType::kUndefined) return false;
  if (IsInCastNorm(unit)) return true;
  return std::ranges::any_of(
      unit.bound().metadata().LinesOf(call.last).lines,
      [](const FileLine& line) { return CastsToAutocast(line.file, line.text); });
}

// Of operands that the type of autocast holds, outside of it.
void LowerCastFirst(UnitWriter& unit, const Rewritten& call, std::vector<NameId> operands) {
  for (NameId& operand : operands) {
    if (operand == kNoName) continue;
    const ProgramValue value = unit.program().values[Index(operand)];
    const TensorType type = {AutocastType(unit.settings().precision), value.type.dims};
    operand = unit.Make("to", {operand}, value.name + ".cast", type);
  }
  CallPlace place = unit.place();
  place.leaves_autocast = true;
  const NameId result = unit.NewResult(unit.bound().At(call.last).outputs[0]);
  unit.At(std::move(place)).Emit(call.aten, std::move(operands), {result}, call.ints);
}

// Whether the line reads a table by numbers that its helper has made on the host.
bool IsByHost(const UnitWriter& unit, const Rewritten& call) {
  if (call.aten != "index" || call.inputs.size() != 2) return false;
  const std::vector<FileLine>& lines = unit.bound().metadata().LinesOf(call.last).lines;
  return unit.values().IsKnown(call.inputs[1]) && !lines.empty() &&
         IndexesFromHost(lines.back().file, lines.back().text);
}

// They are copied to the device each time.
void LowerByHost(UnitWriter& unit, const Rewritten& call) {
  const NameId table = unit.TensorOf(call.inputs[0]);
  const NameId result = unit.NewResult(unit.bound().At(call.last).outputs[0]);
  unit.Emit("index.host", {table}, {result}, {Numel(unit.TypeOf(call.inputs[1]).dims)});
}

// Whether the line that calls a linear layer casts what it passes to the type of the weight first;
// in files without lines, whether a library's layer of that path is passed so.
bool IsArgumentCast(const UnitWriter& unit, const Rewritten& call) {
  if (call.aten != "linear" || call.inputs.size() < 2 || call.module.has_value()) return false;
  if (IsNamedByTorchScript(unit.bound().At(call.last))) {
    return CastsArgument(unit.bound().metadata().PathOf(call.last));
  }
  const std::vector<FileLine>& lines = unit.bound().metadata().LinesOf(call.last).lines;
  if (lines.size() < 2) return false;
  const FileLine& caller = lines[lines.size() - 2];  // of the layer's own forward
  return CastsArgument(caller.file, caller.text);
}

// "hidden_states = hidden_states.to(self.wo.weight.dtype)", a line of the caller's before it.
void LowerCastArgument(UnitWriter& unit, const Rewritten& call, std::vector<NameId> operands) {
  Program& program = unit.program();
  CallPlace caller = unit.place();
  caller.module = program.modules.CallerOf(caller.module);
  if (!caller.frames.empty()) caller.frames.pop_back();
  if (!caller.frames.empty() && caller.frames.back() != kNoStatement) {
    StatementId& line = caller.frames.back();
    line = program.source.PutBeside(line, program.source.At(line).targets);
  }
  const ProgramValue value = program.values[Index(operands[0])];
  const std::string name = value.name + ".cast";
  operands[0] =
      unit.At(std::move(caller)).Make("type_as", {operands[0], operands[1]}, name, value.type);
  unit.Emit(call.aten, std::move(operands),
            {unit.NewResult(unit.bound().At(call.last).outputs[0])});
}

// "image_features" of "x = x.masked_scatter(mask, image_features)", else "".
std::string_view ScatteredName(std::string_view line) {
  constexpr std::string_view kCall = ".masked_scatter(";
  const size_t call = line.find(kCall);
  if (call == line.npos || !line.ends_with(')')) return "";
  line.remove_suffix(1);
  const size_t comma = line.rfind(", ");
  if (comma == line.npos || comma < call) return "";
  line.remove_prefix(comma + 2);
  return line.find_first_of("([. =") == line.npos ? line : "";
}

// Whether the call takes what another line has bound to a name, and has to be of the type that it
// is written into: a line in between casts it, "x = x.to(y.device, y.dtype)", which is no call in
// an fp32 export.
bool IsMaskedScatter(const UnitWriter& unit, const Rewritten& call) {
  if (call.aten != "masked_scatter" || call.inputs.size() != 3) return false;
  const std::vector<StatementId>& frames = unit.place().frames;
  return !frames.empty() && frames.back() != kNoStatement &&
         !ScatteredName(unit.program().source.At(frames.back()).text).empty();
}

void LowerMaskedScatter(UnitWriter& unit, const Rewritten& call, std::vector<NameId> operands) {
  CallPlace place = unit.place();
  SourceLines& source = unit.program().source;
  StatementId& line = place.frames.back();
  line = source.PutBeside(line, {std::string(ScatteredName(source.At(line).text))});
  const ProgramValue value = unit.program().values[Index(operands[2])];
  operands[2] = unit.At(std::move(place))
                    .Make("type_as", {operands[2], operands[0]}, value.name + ".cast", value.type);
  unit.Emit(call.aten, std::move(operands), {unit.NewResult(unit.bound().At(call.last).outputs[0])},
            call.ints);
}

// Whether the call that `node` came from is told a type of floats: torch.randn(n, dtype=x.dtype).
bool IsToldType(const UnitWriter& unit, const Node& node) {
  constexpr std::string_view kMakers[] = {"aten.zeros.", "aten.ones.", "aten.full.", "aten.rand.",
                                          "aten.randn."};
  const FxNode* call = unit.bound().metadata().CallOf(unit.bound().IdOf(node));
  if (call == nullptr || !IsFloat(unit.TypeOf(node.outputs[0]).dtype)) return false;
  const bool makes = std::ranges::any_of(
      kMakers, [&](std::string_view maker) { return call->target.starts_with(maker); });
  return makes && std::ranges::any_of(call->named, [](const auto& argument) {
           return argument.first == "dtype" && argument.second.text != "None";
         });
}

bool SpellsFloat32(const UnitWriter& unit, const Node& node) {
  const std::string_view line = unit.bound().metadata().LinesOf(unit.bound().IdOf(node)).innermost;
  return WithFloat32(line).find("float32") != std::string::npos;
}

// "flat" of "x = one_hot(y).to(flat.dtype)" and "one_hot(y).type_as(flat)"; "" of others.
std::string_view TypedAs(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {{".to(", ".dtype)"},
                                                                          {".type_as(", ")"}};
  for (const auto& [before, behind] : kSpellings) {
    const size_t begin = line.rfind(before);
    if (begin == line.npos || !line.ends_with(behind)) continue;
    line.remove_suffix(behind.size());
    return line.substr(begin + before.size());
  }
  return "";
}

// What a statement before `node`, of its own forward, binds to `variable`; kNoName where none does.
NameId BoundBefore(const UnitWriter& unit, NodeId node, std::string_view variable) {
  const ExporterMetadata& metadata = unit.bound().metadata();
  const std::string statement = std::string(variable) + " = ";
  for (NodeId before = node - 1; before >= 0; --before) {
    if (metadata.ModuleOf(before) != metadata.ModuleOf(node)) continue;
    const std::vector<ValueId>& made = unit.bound().At(before).outputs;
    if (made.empty() || !metadata.LinesOf(before).innermost.starts_with(statement)) continue;
    return unit.values().NameOf(made[0]);
  }
  return kNoName;
}

}  // namespace

NameId GiverToCast(const UnitWriter& unit, const Node& cast) {
  if (AutocastType(unit.settings().precision) == DType::kUndefined) return kNoName;
  const bool makes_float = IsFloat(unit.TypeOf(cast.outputs[0]).dtype);
  if (!makes_float || IsFloat(unit.TypeOf(cast.inputs[0]).dtype)) return kNoName;
  const NodeId node = unit.bound().IdOf(cast);
  const std::string_view line = unit.bound().metadata().LinesOf(node).innermost;
  const std::string_view variable = TypedAs(line);
  return variable.empty() ? kNoName : BoundBefore(unit, node, variable);
}

NameId GiverOfType(const UnitWriter& unit, const Node& node) {
  constexpr int kMostSteps = 8;
  if (AutocastType(unit.settings().precision) == DType::kUndefined) return kNoName;
  if (!IsToldType(unit, node) || SpellsFloat32(unit, node)) return kNoName;
  ValueId made = node.outputs[0];
  for (int step = 0; step < kMostSteps && made != kNoValue; ++step) {
    const std::span<const NodeId> readers = unit.bound().ReadersOf(made);
    if (readers.empty()) return kNoName;
    const Node& reader = unit.bound().At(readers[0]);
    for (const ValueId other : reader.inputs) {
      if (other == made || other == kNoValue || !IsFloat(unit.TypeOf(other).dtype)) continue;
      if (const NameId name = unit.values().NameOf(other); name != kNoName) return name;
    }
    made = reader.outputs[0];
  }
  return kNoName;
}

// Its mean is read, and what else diffusers' DiagonalGaussianDistribution makes is not.
bool LowerPosterior(UnitWriter& unit, const Node& node, ValueId mean) {
  const std::vector<FileLine>& lines =
      unit.bound().metadata().LinesOf(unit.bound().IdOf(node)).lines;
  if (lines.empty() || !MakesPosterior(lines.back().text)) return false;
  const NameId parameters = unit.TensorOf(node.inputs[0]);
  const TensorType type = unit.WithPrecision(unit.TypeOf(mean));
  const std::string name = std::string(unit.bound().NameOf(mean));
  const NameId logvar = unit.NewName(name + ".logvar", type);
  unit.Emit("split", {parameters}, {unit.NewResult(mean), logvar});
  const NameId clamped = unit.Make("clamp", {logvar}, name + ".clamped", type);
  const NameId half = unit.Make("mul.Scalar", {clamped}, name + ".half", type);
  unit.RunUnread(unit.Make("exp", {half}, name + ".std", type));
  unit.RunUnread(unit.Make("exp", {clamped}, name + ".var", type));
  return true;
}

bool LowerByLine(UnitWriter& unit, const Rewritten& call) {
  if (IsByHost(unit, call)) {
    LowerByHost(unit, call);
    return true;
  }
  using Lower = void (*)(UnitWriter&, const Rewritten&, std::vector<NameId>);
  Lower lower = nullptr;
  if (IsCastFirst(unit, call)) lower = LowerCastFirst;
  if (IsArgumentCast(unit, call)) lower = LowerCastArgument;
  if (IsMaskedScatter(unit, call)) lower = LowerMaskedScatter;
  if (lower == nullptr) return false;
  std::vector<NameId> operands;
  for (const ValueId input : call.inputs) operands.push_back(unit.TensorOf(input));
  lower(unit, call, std::move(operands));
  return true;
}

}  // namespace onnxfit

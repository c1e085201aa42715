// Writes calls that an export has lost, while the units around them are lowered.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "estimator/base/index.h"
#include "estimator/program/modules.h"
#include "estimator/recover/lowering.h"
#include "estimator/recover/put_backs.h"

namespace onnxfit {

PutBackWriter::PutBackWriter(Recovery& recovery, const PutBacks& put_backs, const Places& places,
                             const std::vector<Unit>& units)
    : recovery_(recovery),
      put_backs_(put_backs),
      places_(places),
      unit_at_(recovery.bound.graph().nodes.size()) {
  for (const Unit& unit : units) unit_at_[Index(unit.at)] = &unit;
}

// --- Calls in front of their readers, and behind their makers -------------------------------

void PutBackWriter::WriteCopiesOfInputs() {
  const std::vector<ValueId>& inputs = recovery_.bound.graph().inputs;
  for (const auto& [node, lost] : put_backs_.before) {
    const bool is_input = std::ranges::find(inputs, lost.input) != inputs.end();
    if (lost.op != "cat" || !is_input) continue;
    UnitWriter unit(recovery_,
                    {.where = DisplayName(recovery_.bound.graph(), node), .module = lost.caller});
    MakeOnce(unit, lost);
  }
}

// Beside the module that reads it: the caller's frame runs both.
void PutBackWriter::WriteBefore(UnitWriter& unit, NodeId node) {
  const auto [begin, end] = put_backs_.before.equal_range(node);
  for (auto row = begin; row != end; ++row) {
    const LostCall& lost = row->second;
    const NameId made = MakeOnce(unit, lost);
    unit.values().Hide(lost.input, made);
  }
}

void PutBackWriter::WriteBehind(UnitWriter& unit, NodeId node) {
  const auto [begin, end] = put_backs_.behind.equal_range(node);
  for (auto row = begin; row != end; ++row) {
    const NameId made = MakeOnce(unit, row->second);
    if (row->second.before == kNoNode) unit.values().Exchange(row->second.input, made);
  }
}

// Its result, which several nodes may read.
NameId PutBackWriter::MakeOnce(UnitWriter& unit, const LostCall& lost) {
  const auto [made, is_new] = made_.emplace(lost.name, kNoName);
  if (is_new) made->second = lost.repeats == kNoNode ? Write(unit, lost) : Repeat(unit, lost);
  return made->second;
}

namespace {

// A cast that is a part of its line: "softmax(x.float()).type_as(x)".
constexpr std::string_view kInLine = ".inline";

// As the program has it: x.detach() is a view without a history.
std::string_view OpOf(const UnitWriter& unit, const LostCall& lost) {
  if (lost.op.ends_with(kInLine)) return lost.op.substr(0, lost.op.size() - kInLine.size());
  if (lost.op == "dropout") return unit.DropoutOp();
  return lost.op == "detach" ? "view" : lost.op;
}

}  // namespace

NameId PutBackWriter::Write(UnitWriter& unit, const LostCall& lost) {
  const NameId input = unit.TensorOf(lost.input);
  CallPlace place = PlaceOf(unit, lost);
  place.leaves_autograd = place.leaves_autograd || lost.op == "detach";
  UnitWriter there = unit.At(std::move(place));
  TensorType type = unit.program().values[Index(input)].type;
  if (OpOf(unit, lost) == "to" && BitsOf(type.dtype) < 32) type.dtype = DType::kFloat32;
  const NameId made = unit.NewName(lost.name, type);
  std::vector<NameId> inputs = {input};
  const NameId like = lost.like == kNoValue ? kNoName : there.TensorOf(lost.like);
  if (like != kNoName && !lost.is_type_held) inputs.push_back(like);
  there.Emit(OpOf(unit, lost), std::move(inputs), {made});
  if (lost.is_type_held) unit.program().calls.back().typed_like = like;
  return made;
}

// The kept call once more, with a result of its own.
NameId PutBackWriter::Repeat(UnitWriter& unit, const LostCall& lost) {
  const NameId kept = unit.TensorOf(lost.input);
  UnitWriter there = unit.At(lost.tensors_of.empty() ? unit.place() : PlaceOfModule(unit, lost));
  const Unit* const whole = unit_at_[Index(lost.repeats)];
  const bool is_call = whole != nullptr && whole->kind != UnitKind::kNumbers;
  const Unit unit_again = is_call ? *whole : Unit{.nodes = {lost.repeats}, .at = lost.repeats};
  for (const NodeId node : unit_again.nodes) WriteBefore(there, node);
  LowerUnit(there, unit_again);
  if (!lost.tensors_of.empty()) ReadTensorsOf(unit, lost.tensors_of, unit.program().calls.back());
  const NameId made = unit.values().Exchange(lost.input, kept);
  unit.program().values[Index(made)].name = lost.name;
  return made;
}

// `call` reads what `module` has under the names of the tensors that it reads.
void PutBackWriter::ReadTensorsOf(UnitWriter& unit, const std::string& module,
                                  AtenCall& call) const {
  for (NameId& name : call.inputs) {
    if (name == kNoName) continue;
    const std::string_view tensor = unit.program().values[Index(name)].name;
    const auto own = unit.values().FindLostTensor(fmt::format("{}.{}", module, ChildOf(tensor)));
    if (own.has_value()) name = *own;
  }
}

// --- Where they run -------------------------------------------------------------------------

CallPlace PutBackWriter::PlaceOf(const UnitWriter& unit, const LostCall& lost) const {
  if (lost.op.ends_with(kInLine)) return PlaceInLine(unit, lost);
  if (lost.op == "to") return PlaceOfCast(unit);
  if (lost.op == "type_as") return PlaceOfCastBack(unit, lost);
  if (lost.op == "detach" && unit.place().frames.empty()) return unit.place();
  if (lost.caller == kOutside && lost.module.empty()) return unit.Beside(lost.name);
  if (lost.op == "dropout" && lost.behind != kNoNode) return PlaceBehindMaker(unit, lost);
  return PlaceOfModule(unit, lost);
}

// Its maker's or reader's own, or the statement that calls that module: "logits = head(x).float()".
CallPlace PutBackWriter::PlaceInLine(const UnitWriter& unit, const LostCall& lost) {
  CallPlace place = unit.place();
  const bool is_outer = lost.caller != kOutside && lost.caller != place.module;
  if (is_outer && lost.frames == 0 && !place.frames.empty()) place.frames.pop_back();
  if (lost.frames > 0) place.frames.resize(std::min(lost.frames, place.frames.size()));
  if (is_outer) place.module = lost.caller;
  return place;
}

// A statement of its own, before its reader's: "x = x.to(torch.float32)".
CallPlace PutBackWriter::PlaceOfCast(const UnitWriter& unit) const {
  CallPlace place = unit.place();
  if (place.frames.empty() || place.frames.back() == kNoStatement) return place;
  SourceLines& source = unit.program().source;
  const std::string name = source.At(place.frames.back()).receiver;
  std::vector<std::string> targets;
  if (!name.empty()) targets.push_back(name);
  place.frames.back() = source.PutBeside(place.frames.back(), std::move(targets));
  return place;
}

// A part of its reader's statement, or "return x.type_as(y)".
CallPlace PutBackWriter::PlaceOfCastBack(const UnitWriter& unit, const LostCall& lost) const {
  CallPlace place = unit.place();
  const bool is_own = lost.behind != kNoNode && !place.frames.empty();
  if (!is_own || place.frames.back() == kNoStatement) return place;
  SourceLines& source = unit.program().source;
  const int64_t line = source.At(place.frames.back()).line;
  place.frames.back() =
      source.PutBack({.line = line, .returns = true, .receiver = "x", .callee = "x.type_as"});
  return place;
}

// "w = self.dropout(w)", the line behind "w = softmax(s)", if that does not drop out itself.
CallPlace PutBackWriter::PlaceBehindMaker(const UnitWriter& unit, const LostCall& lost) const {
  CallPlace place = unit.place();
  place.module = unit.program().modules.Enter(lost.caller, lost.module);
  if (place.frames.empty()) return place;
  StatementId& statement = place.frames.back();
  if (statement != kNoStatement) {
    SourceLines& source = unit.program().source;
    const SourceStatement& line = source.At(statement);
    const bool is_other = !line.Mentions("drop") && !line.targets.empty();
    if (is_other) statement = source.PutBeside(statement, {std::string(line.targets[0])});
  }
  place.frames.push_back(kNoStatement);
  return place;
}

// Its statement is that of its reader, where that names a dropout, or it, or makes what it drops,
// too, or both are calls of one forward; else it is lost.
CallPlace PutBackWriter::PlaceOfModule(const UnitWriter& unit, const LostCall& lost) const {
  ModuleTree& modules = unit.program().modules;
  const ModuleId module =
      lost.module.empty() ? lost.caller : modules.Enter(lost.caller, lost.module);
  const bool is_module = lost.op == "dropout" || !lost.tensors_of.empty();
  CallPlace place = unit.place();
  if (!is_module && module == place.module) return place;
  const size_t shared = modules.Shared(place.module, module);
  const StatementId line = shared > 0 ? FrameAt(modules, place, shared - 1) : kNoStatement;
  place.module = module;
  place.frames.clear();
  const bool is_near = is_module && shared > 0 && shared + 1 >= modules.DepthOf(module);
  if (is_near && IsInLine(unit, lost, line, shared - 1)) place.frames = {line, kNoStatement};
  return place;
}

bool PutBackWriter::IsInLine(const UnitWriter& unit, const LostCall& lost, StatementId line,
                             size_t level) const {
  if (line == kNoStatement) return false;
  const SourceLines& source = unit.program().source;
  const std::string_view called = lost.tensors_of.empty() ? "drop" : ChildOf(lost.tensors_of);
  if (source.At(line).Mentions(called)) return true;
  const NodeId maker = unit.graph().values[Index(lost.input)].producer;
  return maker != kNoNode &&
         source.AreSame(line, FrameAt(unit.program().modules, places_.Of(maker), level));
}

// --- Stochastic depth -----------------------------------------------------------------------

// branch * noise, the noise one number a sample.
void PutBackWriter::WriteStochasticDepth(UnitWriter& unit, NodeId node) {
  const auto found = put_backs_.stochastic_depths.find(node);
  if (found == put_backs_.stochastic_depths.end()) return;
  const NameId branch = unit.TensorOf(found->second);
  const ProgramValue value = unit.program().values[Index(branch)];
  Dims per_sample(value.type.dims.size(), 1);
  if (!per_sample.empty()) per_sample[0] = value.type.dims[0];
  CallPlace place = unit.place();
  place.written_in_place = false;  // the sum of the line may be
  place.module = unit.program().modules.Enter(place.module, "stochastic_depth");
  UnitWriter there = unit.At(std::move(place));
  const NameId noise =
      there.Make("bernoulli", {branch}, value.name + ".noise", {value.type.dtype, per_sample});
  const NameId product =
      there.Make("mul", {branch, noise}, value.name + ".stochastic_depth", value.type);
  unit.values().Hide(found->second, product);
}

// --- Calls that were merged with another layer's --------------------------------------------

namespace {

// "layer.#" of "layer.3".
std::string WithoutNumbers(const std::string& module) {
  std::string text;
  for (const char c : module) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit) {
      text += c;
    } else if (text.empty() || text.back() != '#') {
      text += '#';
    }
  }
  return text;
}

// Modules of different layers that are the same in each.
bool AreTwins(const ModuleTree& modules, ModuleId a, ModuleId b) {
  if (a == b || modules.DepthOf(a) != modules.DepthOf(b)) return false;
  for (; a != b; a = modules.CallerOf(a), b = modules.CallerOf(b)) {
    if (WithoutNumbers(modules.NameOf(a)) != WithoutNumbers(modules.NameOf(b))) return false;
  }
  return true;
}

// What an activation reads, which has no tensors of its own; kNoValue of other units.
ValueId ActivatedBy(const UnitWriter& unit, const Unit& maker) {
  for (const NodeId node : maker.nodes) {
    for (const ValueId value : unit.bound().At(node).inputs) {
      if (value != kNoValue && unit.values().IsParameter(value)) return kNoValue;
    }
  }
  const std::vector<ValueId>& read = unit.bound().At(maker.nodes[0]).inputs;
  return read.empty() ? kNoValue : read[0];
}

// Modules of one name in modules that are not each other's callers: "mlp" of two blocks.
bool AreNamedAlike(const ModuleTree& modules, ModuleId a, ModuleId b) {
  if (a == kOutside || b == kOutside || a == b) return false;
  const ModuleId common = modules.Common(a, b);
  return common != a && common != b &&
         WithoutNumbers(modules.NameOf(a)) == WithoutNumbers(modules.NameOf(b));
}

// Whether more than one other module of the name of `caller` reads `value`: in a chain each passes
// its activation on to the next alone.
bool HasLikeReaders(const UnitWriter& unit, ValueId value, ModuleId caller) {
  const ExporterMetadata& metadata = unit.bound().metadata();
  std::set<ModuleId> readers;
  for (const NodeId node : unit.bound().ReadersOf(value)) {
    const ModuleId reader = metadata.modules.CallerOf(metadata.ModuleOf(node));
    if (AreNamedAlike(metadata.modules, caller, reader)) readers.insert(reader);
  }
  return readers.size() > 1;
}

// Attention of an encoder and of a decoder, too: "encoder.0.attns.0", "decoder.0.attns.1".
bool MakesTheSame(const ModuleTree& modules, ModuleId a, ModuleId b) {
  return AreTwins(modules, a, b) || AreNamedAlike(modules, a, b);
}

}  // namespace

// A layer reads integers that its twin has made of what both were passed: masks and positions,
// which each layer makes of its own.  Nothing of files that say which call a node came from.
void PutBackWriter::WriteShared(UnitWriter& unit, NodeId node) {
  const ExporterMetadata& metadata = unit.bound().metadata();
  if (!metadata.groups.empty()) return;
  for (const ValueId value : unit.bound().At(node).inputs) {
    const bool is_made = value != kNoValue && unit.values().NameOf(value) != kNoName;
    if (!is_made || IsFloat(unit.TypeOf(value).dtype)) continue;
    const NodeId maker = unit.graph().values[Index(value)].producer;
    const ModuleId module = unit.place().module;
    if (maker == kNoNode || !MakesTheSame(metadata.modules, metadata.ModuleOf(maker), module))
      continue;
    const auto [known, is_new] = in_module_.try_emplace({value, module}, kNoName);
    std::map<ValueId, NameId> made;
    if (is_new) known->second = RepeatIn(unit, value, metadata.ModuleOf(maker), made);
    unit.values().Hide(value, known->second);
  }
}

// The module that made `value` of what its caller was passed, where other modules of the same name
// have passed that to their equal children, SiLU()(time) of each block: kOutside of others.  What
// the module of `reader` was passed itself it does not make.
ModuleId PutBackWriter::MergedMakerOf(const UnitWriter& unit, ValueId value,
                                      ModuleId reader) const {
  const ExporterMetadata& metadata = unit.bound().metadata();
  const ModuleTree& modules = metadata.modules;
  const NodeId node = unit.graph().values[Index(value)].producer;
  const Unit* const maker = node == kNoNode ? nullptr : unit_at_[Index(node)];
  if (maker == nullptr || maker->kind == UnitKind::kNumbers) return kOutside;
  const ModuleId module = metadata.ModuleOf(node);
  const ModuleId caller = modules.CallerOf(module);
  const auto is_in_caller = [&](NodeId other) {
    const ModuleId own = metadata.ModuleOf(other);
    return modules.Common(own, caller) == caller;
  };
  if (caller == kOutside || !AreNamedAlike(modules, caller, modules.CallerOf(reader)))
    return kOutside;
  const ValueId source = ActivatedBy(unit, *maker);
  const NodeId passed = source == kNoValue ? kNoNode : unit.graph().values[Index(source)].producer;
  const bool is_passed = passed != kNoNode && !is_in_caller(passed);
  const bool is_own = std::ranges::any_of(unit.bound().ReadersOf(value), is_in_caller);
  const bool is_shared = is_own && HasLikeReaders(unit, value, caller);
  return is_passed && is_shared ? module : kOutside;
}

// The module around `reader` that is the twin of the one whose own forward made `value` of what
// both were passed, and where it is read in the same place, F.relu(x) of each block: kOutside of
// others.
ModuleId PutBackWriter::TwinThatMakes(const UnitWriter& unit, ValueId value, NodeId reader) const {
  const ExporterMetadata& metadata = unit.bound().metadata();
  const ModuleTree& modules = metadata.modules;
  const NodeId node = unit.graph().values[Index(value)].producer;
  const Unit* const maker = node == kNoNode ? nullptr : unit_at_[Index(node)];
  if (maker == nullptr || maker->kind == UnitKind::kNumbers) return kOutside;
  const ModuleId own = metadata.ModuleOf(node);
  const ModuleId around = metadata.ModuleOf(reader);
  if (own == kOutside || modules.DepthOf(around) < modules.DepthOf(own)) return kOutside;
  const ModuleId twin = modules.AtLevel(around, modules.DepthOf(own) - 1);
  if (!AreTwins(modules, own, twin)) return kOutside;
  const ValueId source = ActivatedBy(unit, *maker);
  const NodeId passed = source == kNoValue ? kNoNode : unit.graph().values[Index(source)].producer;
  const ModuleId caller = passed == kNoNode ? kOutside : metadata.ModuleOf(passed);
  if (caller == kOutside || modules.Common(caller, own) == own) return kOutside;
  const std::string place = metadata.PathOf(reader).substr(modules.PathOf(twin).size());
  const auto is_same = [&](NodeId other) {
    return metadata.PathOf(other) == modules.PathOf(own) + place;
  };
  return std::ranges::any_of(unit.bound().ReadersOf(value), is_same) ? twin : kOutside;
}

void PutBackWriter::WriteMerged(UnitWriter& unit, NodeId node) {
  const ExporterMetadata& metadata = unit.bound().metadata();
  if (!metadata.groups.empty()) return;
  const ModuleId reader = metadata.ModuleOf(node);
  for (const ValueId value : unit.bound().At(node).inputs) {
    const bool is_made = value != kNoValue && unit.values().NameOf(value) != kNoName;
    if (!is_made || !IsFloat(unit.TypeOf(value).dtype)) continue;
    const ModuleId twin = TwinThatMakes(unit, value, node);
    const ModuleId maker = MergedMakerOf(unit, value, reader);
    if (twin == kOutside && maker == kOutside) continue;
    ModuleTree& modules = unit.program().modules;
    CallPlace place = unit.place();
    if (twin != kOutside) {
      place.module = modules.AtLevel(place.module, metadata.modules.DepthOf(twin) - 1);
    } else {
      place.module = modules.Enter(modules.CallerOf(place.module), metadata.modules.NameOf(maker));
    }
    const auto [known, is_new] = in_module_.try_emplace({value, place.module}, kNoName);
    if (is_new) {
      const NameId kept = unit.values().NameOf(value);
      UnitWriter there = unit.At(std::move(place));
      LowerUnit(there, *unit_at_[Index(unit.graph().values[Index(value)].producer)]);
      known->second = unit.values().Exchange(value, kept);
    }
    unit.values().Hide(value, known->second);
  }
}

// `value` made anew, with what leads to it in the module `twin`; `made` so far, each once.
NameId PutBackWriter::RepeatIn(UnitWriter& unit, ValueId value, ModuleId twin,
                               std::map<ValueId, NameId>& made) {
  if (const auto known = made.find(value); known != made.end()) return known->second;
  const NodeId maker = unit.graph().values[Index(value)].producer;
  const NameId kept = unit.values().NameOf(value);
  const bool is_twins =
      maker != kNoNode && kept != kNoName && unit.bound().metadata().ModuleOf(maker) == twin;
  if (!is_twins) return kept;
  std::vector<std::pair<ValueId, NameId>> inputs;  // as they were
  for (const ValueId input : unit.bound().At(maker).inputs) {
    if (input == kNoValue || unit.values().NameOf(input) == kNoName) continue;
    const NameId again = RepeatIn(unit, input, twin, made);
    inputs.emplace_back(input, unit.values().Exchange(input, again));
  }
  LowerUnit(unit, {.nodes = {maker}, .at = maker});
  for (const auto& [input, name] : inputs) unit.values().Exchange(input, name);
  const NameId again = unit.values().Exchange(value, kept);
  made.emplace(value, again);
  return again;
}

// --- Rotary embeddings ----------------------------------------------------------------------

void PutBackWriter::WriteRotary(NodeId node) {
  const bool is_here = put_backs_.rotary.has_value() && put_backs_.rotary->layer == node;
  if (is_here) WriteRotaryCalls(recovery_, *put_backs_.rotary);
}

}  // namespace onnxfit

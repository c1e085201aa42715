#include "estimator/pt2/call_writer.h"

#include <algorithm>
#include <utility>

#include "estimator/base/index.h"
#include "estimator/pt2/assigned_numbers.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/exported_program.h"
#include "estimator/pt2/libraries.h"
#include "estimator/pt2/own_types.h"
#include "estimator/pt2/watched_actions.h"

namespace onnxfit::pt2 {
namespace {

using Kind = Argument::Kind;

void AddReads(const Graph& graph, std::set<std::string_view>& names) {
  for (const Argument& output : graph.outputs) AddNames(output, names);
  for (const Call& call : graph.calls) {
    for (const auto& [name, argument] : call.arguments) {
      AddNames(argument, names);
      if (argument.graph != nullptr) AddReads(*argument.graph, names);
    }
  }
}

// That of the first parameter, or of what else the graph is given; "" where the file does not say.
std::string_view DeviceOf(const ExportedProgram& exported) {
  for (const InputSpec& spec : exported.inputs) {
    const auto tensor = exported.graph.tensors.find(spec.name);
    if (tensor == exported.graph.tensors.end() || spec.kind == InputSpec::Kind::kConstant) continue;
    return tensor->second.device;
  }
  return {};
}

}  // namespace

CallWriter::CallWriter(const ExportedProgram& exported, const SymbolValues& symbols,
                       const TrainingSettings& settings)
    : ProgramWriter(settings, exported.path),
      exported_(exported),
      symbols_(symbols),
      device_(DeviceOf(exported)),
      graphs_({&exported.graph}),
      numbers_(FindAssignedNumbers(exported.graph)),
      first_names_(FindFirstNames(exported)),
      known_(
          exported.graph, [this](const Argument& argument) { return NumberOf(argument); },
          [this](std::string_view name) {
            const Tensor* tensor = FindTensor(name);
            return tensor == nullptr ? std::optional<Dims>() : TypeOf(*tensor).dims;
          }) {
  AddReads(exported.graph, read_);
  if (settings.compile != Compiling::kNone) masks_of_tensors_ = FindMasksOfTensors(exported);
  keeps_types_ = keeps_types_ || HasTypesOf(settings.precision, exported);
  runs_as_watched_ = exported.watching && IsWatchedAs(settings.precision);
  program_.is_as_watched = runs_as_watched_;
  keeps_types_ = keeps_types_ || runs_as_watched_;
  has_types_of_autocast_ =
      runs_as_watched_ && AutocastType(settings.precision) != DType::kUndefined;
  if (!keeps_types_ && BitsOf(ParameterType(settings.precision)) == 16) {
    cast_ways_ = FindCastWays(exported.graph);
  }
  for (const Call& call : exported.graph.calls) {
    for (const std::string_view operand : OperandsOf(call)) readers_.emplace(operand, &call);
  }
}

bool CallWriter::IsWatchedAs(Precision precision) const {
  const std::string_view watched = exported_.watching->precision;
  const bool has_own = watched == "own" && AutocastType(precision) == DType::kUndefined;
  return watched == ToString(precision) || (has_own && keeps_types_);
}

void CallWriter::WriteForward() {
  AddModule();
  AddOptimizers();
  AddInputs();
  WriteCalls(exported_.graph);
  CheckFunctions();
  KeepUnreadMasks();
  AddOutputs();
  ForgetCheckpoints();
  WarnOfUnknown("call");
}

// --- The module --------------------------------------------------------------------------------

// In the order of the file, which is that of named_parameters() and named_buffers().
void CallWriter::AddModule() {
  std::vector<NameId> parameters;
  AddTensors(InputSpec::Kind::kParameter, parameters);
  AddTensors(InputSpec::Kind::kBuffer, program_.buffers);
  std::vector<std::string> modules;
  for (const ModuleFrame& module : exported_.module_calls) modules.emplace_back(module.path);
  PlaceModule(modules);
  ListParameters(parameters, is_frozen_);
  tracked_.insert(program_.parameters.begin(), program_.parameters.end());
  if (settings_.lora.rank > 0) FollowLayers();
}

// Adapters come later, beside linear layers: what these make has a gradient from then on.
void CallWriter::FollowLayers() {
  for (const Call& call : exported_.graph.calls) {
    const bool is_linear = call.target == "torch.ops.aten.linear.default";
    if (!is_linear && call.target != "torch.ops.aten.addmm.default") continue;
    const Argument* weight = FindArgument(call, is_linear ? "weight" : "mat2");
    const auto name = weight == nullptr ? names_.end() : names_.find(weight->text);
    if (name != names_.end()) tracked_.insert(name->second);
  }
}

// A tied one once, under its first name, unless its names are kept apart.
void CallWriter::AddTensors(InputSpec::Kind kind, std::vector<NameId>& to) {
  for (const InputSpec& spec : exported_.inputs) {
    if (spec.kind != kind || first_names_.contains(spec.name)) continue;
    const Tensor* tensor = FindTensor(spec.name);
    if (tensor == nullptr) continue;
    const TensorType type = TypeOf(*tensor);
    const bool is_parameter = kind == InputSpec::Kind::kParameter;
    const NameId name =
        NewName(std::string(spec.target), is_parameter ? WithPrecision(type) : BufferType(type));
    names_[spec.name] = name;
    if (tensor->device == "cpu") moved_.insert(spec.name);
    to.push_back(name);
    if (is_parameter) is_frozen_.push_back(!tensor->requires_grad);
    if (!spec.first_name.empty()) {
      program_.ties.push_back({.name = name, .first = names_.at(spec.first_name)});
      continue;
    }
    auto& listed = is_parameter ? tensors_of_module_.parameters : tensors_of_module_.buffers;
    listed.push_back({.name = std::string(spec.target), .type = type});
  }
  for (const auto& [name, first] : first_names_) {
    if (names_.contains(first)) names_[name] = names_[first];
  }
}

void CallWriter::AddInputs() {
  for (const InputSpec& spec : exported_.inputs) {
    const Tensor* tensor = FindTensor(spec.name);
    if (spec.kind != InputSpec::Kind::kUser || tensor == nullptr) continue;
    names_[spec.name] = NewName(std::string(spec.name), WithPrecision(TypeOf(*tensor)));
    program_.inputs.push_back(names_[spec.name]);
  }
}

void CallWriter::AddOutputs() {
  for (const OutputSpec& spec : exported_.outputs) {
    const auto name = names_.find(spec.name);
    if (spec.kind != OutputSpec::Kind::kUser || name == names_.end()) continue;
    program_.outputs.push_back(name->second);
    named_outputs_.emplace_back(spec.name, name->second);
  }
}

// --- Calls -------------------------------------------------------------------------------------

void CallWriter::WriteCalls(const Graph& graph) {
  for (const Call& call : graph.calls) WriteCall(call);
}

void CallWriter::WriteCall(const Call& call) {
  if (RunsOnHost(call.target)) return;
  running_ = &call;
  place_.where = call.name;
  place_.module = kOutside;
  for (const ModuleFrame& module : call.modules) {
    place_.module = program_.modules.Enter(place_.module, module.path);
    program_.modules.SetClass(place_.module, module.type);
  }
  place_.frames.clear();
  for (const SourceLine& line : call.lines) {
    place_.frames.push_back(program_.source.Read(line.line, line.text, line.file));
  }
  place_.written_in_place = WritesInPlace(call.target);
  place_.returns_first = call.watched != nullptr && call.watched->returns_first;
  place_.writes_over_first = call.watched != nullptr && *place_.written_in_place;
  call.watched == nullptr ? NoteCheckpoint(call) : EnterAsWatched(*call.watched);
  NoteMoved(call);
  if (call.watched != nullptr && call.watched->is_in_backward && !HasFunctions()) return;
  if (IsAction(call.target)) return WriteAction(call);
  if (HasBodies(call)) return WriteBodies(call);
  if (!MakesTensor(call)) return;
  const size_t first = program_.calls.size();
  const CallRow* row = FindCallRow(call.target);
  const bool left = place_.leaves_autocast;
  place_.leaves_autocast = left || LeavesAutocast(call);
  if (loops_ > 0 && --calls_left_ < 0) RefuseLoops(call);
  const std::string_view function = trains() ? FunctionAround(call) : "";
  if (row == nullptr) {
    WriteUnknown(call);
  } else if (!function.empty()) {
    WriteInFunction(call, *row, function);
  } else {
    row->write(*this, call, row->op);
  }
  place_.leaves_autocast = left;
  if (call.asks_for_gradients && program_.calls.size() > first) {
    program_.calls.back().asks_for_gradients = true;
    tracked_.insert(program_.calls.back().outputs.begin(), program_.calls.back().outputs.end());
  }
  Follow(first, LeavesOutMask(call));
  if (place_.writes_over_first && program_.calls.size() > first) PassToBase(program_.calls.back());
  NoteVariables(call, first);
}

// x[:, a:b].add_(y): what `x` is read as has y's history from then on, as behind x[:, a:b] = y.
void CallWriter::PassToBase(const AtenCall& write) {
  if (!trains() || write.outputs.size() != 1 || !IsTracked(write.outputs[0])) return;
  const NameId part = write.outputs[0];
  const NameId base = BaseOf(write.inputs[0]);
  if (base == kNoName || base == write.inputs[0] || write.op == "copy_slice") return;
  if (IsTracked(base)) return;  // its history goes on through the part
  const NameId written = NewNameLike(base, std::string(running_->name) + ".base");
  Emit("copy_slice", {base, part}, {written});
  tracked_.insert(written);
  Supersede(base, written);
}

void CallWriter::WriteInFunction(const Call& call, const CallRow& row, std::string_view op) {
  const std::string_view module = call.modules.empty() ? "" : call.modules.back().path;
  if (module != function_module_) function_inputs_ = {}, function_results_ = {};
  function_module_ = module;
  const std::vector<NameId> operands = Tensors(call);
  if (IsLastOfFunction(call)) {
    std::vector<NameId> inputs = std::exchange(function_inputs_, {});
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    function_results_.clear();
    return Emit(op, std::move(inputs), {Result(call)});
  }
  for (const NameId operand : operands) {
    const bool is_known = std::ranges::find(function_inputs_, operand) != function_inputs_.end();
    if (!is_known && !function_results_.contains(operand)) function_inputs_.push_back(operand);
  }
  const bool left = place_.leaves_autograd;
  place_.leaves_autograd = true;
  row.write(*this, call, row.op);
  place_.leaves_autograd = left;
  function_results_.insert(names_[call.results[0].text]);
}

bool CallWriter::IsLastOfFunction(const Call& call) const {
  const auto reader = readers_.find(call.results[0].text);
  return reader == readers_.end() || FunctionAround(*reader->second).empty();
}

// Every forward around the call has a line for it: "x = self.block(x)" binds x to what is made
// last, "values, places = x.topk(2)" each to its own.
void CallWriter::NoteVariables(const Call& call, size_t first) {
  const bool makes = program_.calls.size() > first && !program_.calls.back().outputs.empty();
  if (!makes || call.lines.size() != call.modules.size()) return;
  for (size_t i = 0; i < call.lines.size(); ++i) {
    const SourceStatement& statement = program_.source.At(place_.frames[i]);
    const std::vector<NameId>& made = program_.calls.back().outputs;
    const bool are_all = statement.targets.size() == made.size();
    if (statement.targets.size() != 1 && !are_all) continue;
    for (size_t target = 0; target < statement.targets.size(); ++target) {
      Variable& variable = variables_[{call.modules[i].path, statement.targets[target]}];
      if (variable.line != statement.line) variable.before = variable.value;
      variable.line = statement.line;
      variable.value = made[target];
    }
  }
}

void CallWriter::EmitBinding(std::string target, std::string_view op, std::vector<NameId> inputs,
                             std::vector<NameId> outputs) {
  CallPlace place = place_;
  if (!place.frames.empty()) {
    place.frames.back() = program_.source.PutBeside(place.frames.back(), {std::move(target)});
  }
  ProgramWriter::Emit(place, op, std::move(inputs), std::move(outputs));
}

void CallWriter::EmitInCaller(std::string target, std::string_view op, std::vector<NameId> inputs,
                              std::vector<NameId> outputs) {
  const CallPlace around = place_;
  place_.module = program_.modules.CallerOf(place_.module);
  place_.frames.pop_back();
  EmitBinding(std::move(target), op, std::move(inputs), std::move(outputs));
  place_ = around;
}

// What is made of the model's tensors alone is where they are.
void CallWriter::NoteMoved(const Call& call) {
  if (moved_.empty()) return;
  std::set<std::string_view> read;
  for (const auto& [_, argument] : call.arguments) AddNames(argument, read);
  const auto is_elsewhere = [&](std::string_view name) {
    const Tensor* tensor = FindTensor(name);
    return tensor != nullptr && tensor->device != "cpu";
  };
  const auto is_moved = [&](std::string_view name) { return moved_.contains(name); };
  if (std::ranges::none_of(read, is_moved) || std::ranges::any_of(read, is_elsewhere)) return;
  for (const Argument& result : call.results) AddNames(result, moved_);
}

bool CallWriter::MakesTensor(const Call& call) const {
  const auto is_tensor = [&](const Argument& result) {
    const Tensor* tensor = result.kind == Kind::kTensor ? FindTensor(result.text) : nullptr;
    return tensor != nullptr && !IsOnHost(result.text, *tensor);
  };
  return std::ranges::any_of(call.results, [&](const Argument& result) {
    return is_tensor(result) || std::ranges::any_of(result.items, is_tensor);
  });
}

// What a gradient flows through, and what belongs to a mask, of the calls from `first` on.
void CallWriter::Follow(size_t first, bool builds_mask) {
  for (size_t i = first; i < program_.calls.size(); ++i) {
    const AtenCall& call = program_.calls[i];
    const bool is_filled = call.op == "bernoulli";  // reads the type of its operand alone
    const bool is_cut = is_filled || call.leaves_autograd;
    const bool is_tracked = !is_cut && std::ranges::any_of(call.inputs, [&](NameId name) {
      return tracked_.contains(name);
    });
    for (const NameId name : call.outputs) {
      if (name == kNoName) continue;
      if (is_tracked && HasGradients(program_.values[Index(name)].type.dtype))
        tracked_.insert(name);
      if (!builds_mask) continue;
      mask_parts_.insert(name);
      leftovers_.insert(name);
    }
  }
}

bool CallWriter::LeavesOutMask(const Call& call) const {
  if (!BuildsLibraryMask(call)) return false;
  if (settings().compile == Compiling::kNone) return true;
  return settings().framework.tells_export_from_compile &&
         !masks_of_tensors_.contains(MaskStatementOf(call));
}

// A mask that no layer reads is made all the same, unless the library leaves it out because of what
// it shows: one of a sliding window, beside that of full attention.
void CallWriter::KeepUnreadMasks() {
  std::set<NameId> read;
  for (const AtenCall& call : program_.calls) read.insert(call.inputs.begin(), call.inputs.end());
  for (const Call& call : exported_.graph.calls) {
    if (!LeavesOutMask(call) || call.results.size() != 1) continue;
    const std::string_view result = call.results[0].text;
    const auto name = names_.find(result);
    if (name == names_.end() || read.contains(name->second)) continue;
    const Dims& dims = DimsOf(name->second);
    const bool is_mask = dims.size() == 4 && dims[2] > 1 && dims[3] > 1 && !IsNoMask(name->second);
    if (!is_mask || asked_masks_.contains(name->second)) continue;
    const Known* shown = known_.Find(result);
    const bool is_skipped = shown != nullptr && (AreAllTrue(*shown) || IsCausal(*shown));
    if (!is_skipped) leftovers_.erase(name->second);
  }
}

void CallWriter::WriteUnknown(const Call& call) {
  std::vector<NameId> results = Results(call);
  std::erase(results, kNoName);
  EmitUnknown(place_, call.target, Tensors(call), std::move(results));
}

bool CallWriter::IsLeftover(const AtenCall& call) const {
  return call.outputs.size() == 1 && leftovers_.contains(call.outputs[0]);
}

ObservedLives CallWriter::LivesAsWatched() const {
  ObservedLives lives;
  std::map<NameId, int> names;  // that stand for a value and are not gone yet
  for (const auto& [text, value] : names_) ++names[value];
  std::set<NameId> made;
  for (const Call& call : exported_.graph.calls) {
    ObservedDeaths& behind = lives.deaths.emplace_back();
    behind.where = call.name;
    if (call.watched == nullptr) continue;
    std::set<std::string_view> results;
    for (const Argument& result : call.results) AddNames(result, results);
    for (const std::string_view text : results) {
      if (const auto name = names_.find(text); name != names_.end()) made.insert(name->second);
    }
    for (const std::string_view text : call.watched->dies) {
      const auto name = names_.find(text);
      if (name != names_.end() && --names[name->second] == 0) behind.values.push_back(name->second);
    }
    behind.drops = KnownNames(call.watched->drops);
    for (const std::string_view text : call.watched->dies_of_step_before) {
      const auto name = names_.find(text);
      if (name != names_.end()) behind.of_step_before.push_back(name->second);
    }
  }
  for (const NameId value : made) {
    if (names[value] > 0) lives.kept.push_back(value);
  }
  return lives;
}

NameId CallWriter::BaseOf(NameId view) const {
  for (auto call = program_.calls.rbegin(); call != program_.calls.rend(); ++call) {
    if (call->outputs.size() != 1 || call->outputs[0] != view) continue;
    if (call->op != "slice" && call->op != "select") return view;
    view = call->inputs[0];
  }
  return kNoName;
}

void CallWriter::Supersede(NameId before, NameId after) {
  for (auto& [text, name] : names_) {
    if (name == before) name = after;
  }
}

// The calls are the last ones, but for those of the other operands.
NameId CallWriter::UnrepeatedHeads(NameId heads) {
  std::vector<NameId> made;
  NameId name = heads;
  for (auto call = program_.calls.rbegin(); call != program_.calls.rend(); ++call) {
    if (call->outputs.size() != 1 || call->outputs[0] != name) continue;
    const bool expands = call->op == "expand" && made.size() == 1;
    const bool views = call->op == "view" && made.size() != 1;
    if (!expands && !views) return heads;
    made.push_back(name);
    name = call->inputs[0];
    if (made.size() == 3) break;
  }
  const Dims& whole = DimsOf(heads);
  const Dims& shared = DimsOf(name);
  const bool are_heads = made.size() == 3 && whole.size() == 4 && shared.size() == 4 &&
                         shared[1] > 0 && whole[1] % shared[1] == 0 && whole[0] == shared[0] &&
                         whole[2] == shared[2] && whole[3] == shared[3];
  if (!are_heads) return heads;
  leftovers_.insert(made.begin(), made.end());
  return name;
}

}  // namespace onnxfit::pt2

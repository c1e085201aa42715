#include "estimator/pt2/call_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/glob.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/base/warnings.h"
#include "estimator/program/placement.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/expression.h"
#include "estimator/pt2/libraries.h"
#include "estimator/pt2/tied_names.h"

namespace onnxfit::pt2 {
namespace {

using Kind = Argument::Kind;

// Every tensor that `argument` names, those in lists too.
void AddNames(const Argument& argument, std::set<std::string_view>& names) {
  if (argument.kind == Kind::kTensor) names.insert(argument.text);
  for (const Argument& item : argument.items) AddNames(item, names);
}

void AddReads(const Graph& graph, std::set<std::string_view>& names) {
  for (const Argument& output : graph.outputs) AddNames(output, names);
  for (const Call& call : graph.calls) {
    for (const auto& [name, argument] : call.arguments) {
      AddNames(argument, names);
      if (argument.graph != nullptr) AddReads(*argument.graph, names);
    }
  }
}

// Of wrap_with_autocast (device, dtype, enabled, cache_enabled, body, …), by position.
bool IsEnabled(const Call& call) {
  for (const auto& [name, argument] : call.arguments) {
    if (argument.kind == Kind::kBool) return argument.number != 0;
  }
  return true;
}

const Argument* BodyOf(const Call& call) {
  for (const auto& [name, argument] : call.arguments) {
    if (argument.kind == Kind::kGraph && argument.graph != nullptr) return &argument;
  }
  return nullptr;
}

}  // namespace

CallWriter::CallWriter(const ExportedProgram& exported, const SymbolValues& symbols,
                       const TrainingSettings& settings)
    : ProgramWriter(settings, exported.path),
      exported_(exported),
      symbols_(symbols),
      graphs_({&exported.graph}),
      first_names_(FindFirstNames(exported)),
      known_(
          exported.graph, [this](const Argument& argument) { return NumberOf(argument); },
          [this](std::string_view name) {
            const Tensor* tensor = FindTensor(name);
            return tensor == nullptr ? std::optional<Dims>() : TypeOf(*tensor).dims;
          }) {
  AddReads(exported.graph, read_);
  for (const Call& call : exported.graph.calls) {
    for (const auto& [name, argument] : call.arguments) {
      if (argument.kind == Kind::kTensor) readers_.emplace(argument.text, &call);
    }
  }
}

void CallWriter::WriteForward() {
  AddModule();
  AddInputs();
  WriteCalls(exported_.graph);
  AddOutputs();
  DropUnreadMasks();
  WarnOfUnknown();
}

// --- The module --------------------------------------------------------------------------------

// In the order of the file, which is that of named_parameters() and named_buffers().
void CallWriter::AddModule() {
  std::vector<NameId> parameters;
  AddTensors(InputSpec::Kind::kParameter, parameters);
  AddTensors(InputSpec::Kind::kBuffer, program_.buffers);
  PlaceTensors();
  std::vector<std::string> names;
  for (const NameId name : parameters) names.push_back(program_.values[Index(name)].name);
  const std::vector<bool> frozen =
      PickNames(names, settings_.freeze, {"--freeze", "parameters", path()});
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool is_frozen = frozen[i] || !requires_grad_[i];
    (is_frozen ? program_.frozen : program_.parameters).push_back(parameters[i]);
  }
  tracked_.insert(program_.parameters.begin(), program_.parameters.end());
  if (program_.frozen.empty() || !trains()) return;
  program_.assumptions.push_back(
      fmt::format("{} of {} parameters are frozen", program_.frozen.size(), parameters.size()));
}

// A tied one once, under its first name.
void CallWriter::AddTensors(InputSpec::Kind kind, std::vector<NameId>& to) {
  for (const InputSpec& spec : exported_.inputs) {
    if (spec.kind != kind || first_names_.contains(spec.name)) continue;
    const Tensor* tensor = FindTensor(spec.name);
    if (tensor == nullptr) continue;
    const TensorType type = TypeOf(*tensor);
    const NameId name = NewName(std::string(spec.target), WithPrecision(type));
    names_[spec.name] = name;
    to.push_back(name);
    const bool is_parameter = kind == InputSpec::Kind::kParameter;
    auto& listed = is_parameter ? roles_.parameters : roles_.buffers;
    listed.push_back({std::string(spec.target), kNoValue, type});
    if (is_parameter) requires_grad_.push_back(tensor->requires_grad);
  }
  for (const auto& [name, first] : first_names_) {
    if (names_.contains(first)) names_[name] = names_[first];
  }
}

// There is no other value yet.
void CallWriter::PlaceTensors() {
  std::vector<std::string> names;
  for (const ProgramValue& value : program_.values) names.push_back(value.name);
  for (const size_t i : PlacementOrder(names)) {
    program_.placement.push_back(static_cast<NameId>(i));
  }
  for (const size_t i : CopyOrder(names)) {
    program_.copy_order.push_back(static_cast<NameId>(i));
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
  std::vector<std::string> scope;
  for (const ModuleFrame& module : call.modules) scope.emplace_back(module.path);
  running_ = &call;
  SetPlace(std::string(call.name), std::move(scope));
  for (const SourceLine& line : call.lines) frames_.push_back({line.line, std::string(line.text)});
  written_in_place_ = WritesInPlace(call.target);
  if (const Argument* body = BodyOf(call)) return WriteBody(call, *body);
  if (!MakesTensor(call)) return;
  const size_t first = program_.calls.size();
  const CallRow* row = FindCallRow(call.target);
  row == nullptr ? WriteUnknown(call) : row->write(*this, call, row->op);
  Follow(first, BuildsLibraryMask(call));
}

bool CallWriter::MakesTensor(const Call& call) const {
  const auto is_tensor = [&](const Argument& result) {
    return result.kind == Kind::kTensor && FindTensor(result.text) != nullptr;
  };
  return std::ranges::any_of(call.results, [&](const Argument& result) {
    return is_tensor(result) || std::ranges::any_of(result.items, is_tensor);
  });
}

// What a gradient flows through, and what belongs to a mask, of the calls from `first` on.
void CallWriter::Follow(size_t first, bool builds_mask) {
  for (size_t i = first; i < program_.calls.size(); ++i) {
    const AtenCall& call = program_.calls[i];
    const bool is_tracked =
        std::ranges::any_of(call.inputs, [&](NameId name) { return tracked_.contains(name); });
    for (const NameId name : call.outputs) {
      if (name == kNoName) continue;
      if (is_tracked && IsFloat(program_.values[Index(name)].type.dtype)) tracked_.insert(name);
      if (builds_mask) mask_calls_.insert(name);
    }
  }
}

// Of torch.autocast(…) and set_grad_enabled(…): the calls inside, with the operands under the
// body's own names.
void CallWriter::WriteBody(const Call& call, const Argument& body) {
  std::vector<NameId> operands;
  bool is_behind = false;
  for (const auto& [name, argument] : call.arguments) {
    if (is_behind && argument.kind == Kind::kTensor) operands.push_back(TensorOf(argument));
    is_behind = is_behind || &argument == &body;
  }
  const std::map<std::string_view, NameId> outer = names_;
  const bool left = leaves_autocast_;
  size_t next = 0;
  for (const Argument& input : body.graph->inputs) {
    if (input.kind == Kind::kTensor && next < operands.size())
      names_[input.text] = operands[next++];
  }
  if (call.target.ends_with("wrap_with_autocast")) leaves_autocast_ = !IsEnabled(call);
  graphs_.push_back(body.graph.get());
  WriteCalls(*body.graph);
  graphs_.pop_back();
  leaves_autocast_ = left;
  std::vector<NameId> results;
  for (const Argument& output : body.graph->outputs) results.push_back(TensorOf(output));
  names_ = outer;
  const std::vector<Argument>& given =
      call.results.size() == 1 && call.results[0].kind == Kind::kList ? call.results[0].items
                                                                      : call.results;
  for (size_t i = 0; i < std::min(given.size(), results.size()); ++i) {
    if (given[i].kind == Kind::kTensor) names_[given[i].text] = results[i];
  }
}

void CallWriter::WriteUnknown(const Call& call) {
  ++unknown_[call.target];
  std::vector<NameId> results = Results(call);
  std::erase(results, kNoName);
  Emit("?", Tensors(call), std::move(results));
}

void CallWriter::WarnOfUnknown() {
  for (const auto& [target, calls] : unknown_) {
    program_.warnings.push_back(
        {warning::kUnknownOperator,
         fmt::format("no rule for {} ({} call{}): {}, which may be too much or too little", target,
                     calls, calls == 1 ? "" : "s",
                     trains() ? "all its inputs and outputs are kept until backward"
                              : "its results are taken as new tensors, and nothing beside them")});
  }
  WarnOfMisfits();
}

void CallWriter::DropUnreadMasks() {
  std::vector<bool> read(program_.values.size());
  for (const NameId name : program_.outputs) read[Index(name)] = true;
  std::vector<AtenCall> kept;
  for (size_t i = program_.calls.size(); i-- > 0;) {
    AtenCall& call = program_.calls[i];
    const NameId made = call.outputs.size() == 1 ? call.outputs[0] : kNoName;
    const bool is_left_out = made != kNoName && !read[Index(made)] && mask_calls_.contains(made);
    if (is_left_out) continue;
    for (const NameId name : call.inputs) {
      if (name != kNoName) read[Index(name)] = true;
    }
    kept.push_back(std::move(call));
  }
  std::ranges::reverse(kept);
  program_.calls = std::move(kept);
}

// --- Arguments ---------------------------------------------------------------------------------

const Argument* CallWriter::Find(const Call& call, std::string_view name) {
  for (const auto& [given, argument] : call.arguments) {
    if (given == name && argument.kind != Kind::kNone) return &argument;
  }
  return nullptr;
}

int64_t CallWriter::NumberOf(const Argument& argument) const {
  if (argument.kind != Kind::kSymbol) return argument.number;
  for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
    const auto found = (*graph)->symbols.find(argument.text);
    if (found != (*graph)->symbols.end()) return SizeOf(found->second);
  }
  return 0;
}

int64_t CallWriter::IntAt(const Call& call, std::string_view name, int64_t absent) const {
  const Argument* argument = Find(call, name);
  return argument == nullptr ? absent : NumberOf(*argument);
}

double CallWriter::RealAt(const Call& call, std::string_view name, double absent) const {
  const Argument* argument = Find(call, name);
  if (argument == nullptr) return absent;
  return argument->kind == Kind::kReal ? argument->real : static_cast<double>(NumberOf(*argument));
}

std::vector<int64_t> CallWriter::IntsAt(const Call& call, std::string_view name) const {
  const Argument* argument = Find(call, name);
  if (argument == nullptr) return {};
  if (argument->kind != Kind::kList) return {NumberOf(*argument)};
  std::vector<int64_t> ints;
  for (const Argument& item : argument->items) ints.push_back(NumberOf(item));
  return ints;
}

std::string_view CallWriter::TextAt(const Call& call, std::string_view name) const {
  const Argument* argument = Find(call, name);
  return argument == nullptr ? std::string_view() : argument->text;
}

NameId CallWriter::TensorAt(const Call& call, std::string_view name) {
  const Argument* argument = Find(call, name);
  return argument == nullptr ? kNoName : TensorOf(*argument);
}

// A constant of the module's code, torch.tensor(2.0), is made where it is read first.
NameId CallWriter::TensorOf(const Argument& argument) {
  if (argument.kind != Kind::kTensor) return kNoName;
  const auto cast = spelled_casts_.find(argument.text);
  if (cast != spelled_casts_.end() && !IsOfCast(cast->second)) return cast->second.self;
  const auto found = names_.find(argument.text);
  if (found != names_.end()) return found->second;
  const Tensor* tensor = FindTensor(argument.text);
  if (tensor == nullptr) return kNoName;
  const NameId made = NewName(std::string(argument.text), WithPrecision(TypeOf(*tensor)));
  Emit("constant", {}, {made});
  return names_[argument.text] = made;
}

// Whether the running call reads what was cast: it is of the same statement, or, where that binds
// the cast to a name ("x = x.to(torch.float32)"), of the same forward.
bool CallWriter::IsOfCast(const SpelledCast& cast) const {
  if (running_ == nullptr || running_->lines.empty() || cast.call->lines.empty()) return true;
  const SourceLine& line = cast.call->lines.back();
  const SourceLine& here = running_->lines.back();
  if (line.file == here.file && line.line == here.line) return true;
  const bool binds = line.text.find(" = ") != std::string_view::npos &&
                     (line.text.ends_with(".to(torch.float32)") || line.text.ends_with(".float()"));
  return binds && std::ranges::equal(cast.call->modules, running_->modules, {}, &ModuleFrame::path,
                                     &ModuleFrame::path);
}

NameId CallWriter::CastResult(const Call& call, NameId self, const TensorType& type) {
  const NameId result = Result(call, type);
  const bool changes = type.dtype != program_.values[Index(self)].type.dtype;
  const Argument* given = Find(call, "self");
  const Tensor* before = given == nullptr ? nullptr : FindTensor(given->text);
  const Tensor* after = FindTensor(call.results[0].text);
  if (changes && before != nullptr && after != nullptr && before->dtype == after->dtype) {
    spelled_casts_[call.results[0].text] = {&call, self};
  }
  return result;
}

std::vector<NameId> CallWriter::Tensors(const Call& call) {
  std::vector<NameId> tensors;
  const auto add = [&](const Argument& argument) {
    const NameId name = TensorOf(argument);
    if (name != kNoName) tensors.push_back(name);
  };
  for (const auto& [name, argument] : call.arguments) {
    add(argument);
    for (const Argument& item : argument.items) add(item);
  }
  return tensors;
}

const Known* CallWriter::LibraryMaskAt(const Call& call, std::string_view name) {
  const Argument* argument = Find(call, name);
  if (argument == nullptr || argument->kind != Kind::kTensor) return nullptr;
  return mask_calls_.contains(TensorOf(*argument)) ? known_.Find(argument->text) : nullptr;
}

const Known* CallWriter::KnownAt(const Call& call, std::string_view name) {
  const Argument* argument = Find(call, name);
  const bool is_tensor = argument != nullptr && argument->kind == Kind::kTensor;
  return is_tensor ? known_.Find(argument->text) : nullptr;
}

void CallWriter::RefuseRows(const Call& call, std::string_view table, std::string_view counted,
                            int64_t asked, int64_t most) const {
  const Argument* rows = Find(call, table);
  std::string_view name = rows == nullptr ? "" : rows->text;
  const auto is_it = [&](const InputSpec& spec) { return spec.name == name; };
  const auto stored = std::ranges::find_if(exported_.inputs, is_it);
  if (stored != exported_.inputs.end() && !stored->target.empty()) name = stored->target;
  const std::string text = fmt::format("it takes {} of the {} in {}", asked, most, Quote(name));
  const std::string where = fmt::format("call {}", Quote(call.name));
  for (const InputSpec& spec : exported_.inputs) {
    const Tensor* input = spec.kind == InputSpec::Kind::kUser ? FindTensor(spec.name) : nullptr;
    for (size_t axis = 0; input != nullptr && axis < input->sizes.size(); ++axis) {
      const std::string_view symbol = input->sizes[axis].expression;
      const auto value = symbols_.find(symbol);
      if (value == symbols_.end() || !HasSize(counted, symbol)) continue;
      const int64_t fits = value->second - (asked - most);
      if (fits < 1) continue;
      throw Error({.file = path(),
                   .where = fmt::format("input {}", Quote(spec.name)),
                   .text = fmt::format("dimension {} ({}) is {}, expected at most {}: {}: {}", axis,
                                       Quote(symbol), value->second, fits, where, text),
                   .hint = fmt::format("--dim {}={}", symbol, fits)});
    }
  }
  throw Error({.file = path(), .where = where, .text = text});
}

bool CallWriter::HasSize(std::string_view tensor, std::string_view symbol) const {
  const Tensor* found = FindTensor(tensor);
  return found != nullptr && std::ranges::any_of(found->sizes, [&](const Size& size) {
           return size.expression == symbol;
         });
}

NameId CallWriter::PartnerOfResult(const Call& call) {
  constexpr int kMostSteps = 8;
  const Call* maker = &call;
  for (int step = 0; step < kMostSteps && !maker->results.empty(); ++step) {
    const std::string_view result = maker->results[0].text;
    const auto reader = readers_.find(result);
    if (reader == readers_.end()) return kNoName;
    for (const auto& [name, argument] : reader->second->arguments) {
      const bool is_other = argument.kind == Kind::kTensor && argument.text != result;
      const auto other = is_other ? names_.find(argument.text) : names_.end();
      if (other == names_.end()) continue;
      if (IsFloat(program_.values[Index(other->second)].type.dtype)) return other->second;
    }
    maker = reader->second;
  }
  return kNoName;
}

bool CallWriter::IsTracked(NameId name) const { return tracked_.contains(name); }

int64_t CallWriter::AxisAt(const Call& call, std::string_view name, NameId of, int64_t absent) {
  const int64_t axis = IntAt(call, name, absent);
  return axis < 0 ? axis + std::ssize(DimsOf(of)) : axis;
}

const Dims& CallWriter::DimsOf(NameId name) const {
  static const Dims kNone;
  return name == kNoName ? kNone : program_.values[Index(name)].type.dims;
}

// --- Results -----------------------------------------------------------------------------------

const Tensor* CallWriter::FindTensor(std::string_view name) const {
  for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
    const auto found = (*graph)->tensors.find(name);
    if (found != (*graph)->tensors.end()) return &found->second;
  }
  return nullptr;
}

int64_t CallWriter::SizeOf(const Size& size) const {
  if (size.expression.empty()) return size.number;
  const std::optional<int64_t> value = Evaluate(size.expression, symbols_);
  if (value.has_value()) return *value;
  throw Error({.file = path(),
               .where = fmt::format("size {}", size.expression),
               .text = "a size that follows from the inputs' sizes was expected, this one depends "
                       "on data"});
}

TensorType CallWriter::TypeOf(const Tensor& tensor) const {
  TensorType type = {tensor.dtype, {}};
  for (const Size& size : tensor.sizes) type.dims.push_back(SizeOf(size));
  return type;
}

TensorType CallWriter::TypeOfResult(const Call& call) const {
  const Tensor* tensor = nullptr;
  if (!call.results.empty()) {
    const Argument& first = call.results[0];
    const bool is_list = first.kind == Kind::kList && !first.items.empty();
    tensor = FindTensor(is_list ? first.items[0].text : first.text);
  }
  return tensor == nullptr ? TensorType() : WithPrecision(TypeOf(*tensor));
}

std::vector<NameId> CallWriter::Results(const Call& call) {
  std::vector<NameId> results;
  const auto add = [&](const Argument& result) {
    const Tensor* tensor = result.kind == Kind::kTensor ? FindTensor(result.text) : nullptr;
    if (tensor == nullptr) return results.push_back(kNoName);
    names_[result.text] = NewName(std::string(result.text), WithPrecision(TypeOf(*tensor)));
    results.push_back(names_[result.text]);
  };
  for (const Argument& result : call.results) {
    if (result.kind != Kind::kList) add(result);
    for (const Argument& item : result.items) add(item);
  }
  return results;
}

NameId CallWriter::Result(const Call& call, std::optional<TensorType> type) {
  const std::vector<NameId> results = Results(call);
  const NameId first = results.empty() ? kNoName : results[0];
  if (type.has_value() && first != kNoName) {
    static_cast<TensorType&>(program_.values[Index(first)].type) = *type;
  }
  return first;
}

void CallWriter::ReturnSame(const Call& call, NameId name) {
  if (!call.results.empty()) names_[call.results[0].text] = name;
}

}  // namespace onnxfit::pt2

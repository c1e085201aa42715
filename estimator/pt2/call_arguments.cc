// What a call takes and makes, in this run's sizes and precision.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/expression.h"
#include "estimator/base/index.h"
#include "estimator/base/quote.h"
#include "estimator/libraries/libraries.h"
#include "estimator/program/source_statement.h"
#include "estimator/pt2/call_rows.h"
#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {
namespace {

// Whether `call` is in a module that a later line of the forward of `caller` calls and may pass
// `name` to.
bool IsPassed(const Call& caller, const Call& call, std::string_view name) {
  const SourceLine& line = caller.lines.back();
  const size_t depth = caller.modules.size();
  const bool is_inside =
      call.modules.size() > depth &&
      std::equal(caller.modules.begin(), caller.modules.end(), call.modules.begin(),
                 [](const ModuleFrame& a, const ModuleFrame& b) { return a.path == b.path; });
  return is_inside && std::ranges::any_of(call.lines, [&](const SourceLine& here) {
           return here.file == line.file && here.line > line.line &&
                  ReadStatement(here.line, here.text).MayPassOn(name);
         });
}

// "x.float()", "x.to(torch.float32)", or to the type of parameters, which in 32 bits is the same.
bool EndsWithCastToFloat32(std::string_view file, std::string_view line) {
  constexpr std::string_view kCast = ".to(";
  constexpr std::string_view kSpellings[] = {".to(torch.float32)", ".to(dtype=torch.float32)",
                                             ".type(torch.float32)", ".float()"};
  const auto is_end = [&](std::string_view spelling) { return line.ends_with(spelling); };
  if (std::ranges::any_of(kSpellings, is_end)) return true;
  const size_t cast = line.rfind(kCast);
  if (cast == line.npos || !line.ends_with(')')) return false;
  line.remove_suffix(1);
  return HoldsTypeOfParameters(file, line.substr(cast + kCast.size()));
}

}  // namespace

int64_t CallWriter::NumberOf(const Argument& argument) const {
  if (argument.kind != Argument::Kind::kSymbol) return argument.number;
  for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
    const auto found = (*graph)->symbols.find(argument.text);
    if (found != (*graph)->symbols.end()) return SizeOf(found->second);
  }
  return 0;
}

int64_t CallWriter::IntAt(const Call& call, std::string_view name, int64_t absent) const {
  const Argument* argument = FindArgument(call, name);
  return argument == nullptr ? absent : NumberOf(*argument);
}

double CallWriter::RealAt(const Call& call, std::string_view name, double absent) const {
  const Argument* argument = FindArgument(call, name);
  if (argument == nullptr) return absent;
  return argument->kind == Argument::Kind::kReal ? argument->real
                                                 : static_cast<double>(NumberOf(*argument));
}

std::vector<int64_t> CallWriter::IntsAt(const Call& call, std::string_view name) const {
  const Argument* argument = FindArgument(call, name);
  if (argument == nullptr) return {};
  if (argument->kind != Argument::Kind::kList) return {NumberOf(*argument)};
  std::vector<int64_t> ints;
  for (const Argument& item : argument->items) ints.push_back(NumberOf(item));
  return ints;
}

std::string_view CallWriter::TextAt(const Call& call, std::string_view name) const {
  const Argument* argument = FindArgument(call, name);
  return argument == nullptr ? std::string_view() : argument->text;
}

NameId CallWriter::TensorAt(const Call& call, std::string_view name) {
  const Argument* argument = FindArgument(call, name);
  return argument == nullptr ? kNoName : TensorOf(*argument);
}

NameId CallWriter::UncastAt(const Call& call, std::string_view name) {
  const Argument* argument = FindArgument(call, name);
  if (argument == nullptr) return kNoName;
  const auto cast = spelled_casts_.find(argument->text);
  return cast == spelled_casts_.end() ? TensorOf(*argument) : cast->second.self;
}

// A constant of the module's code, torch.tensor(2.0), is made where it is read first.
NameId CallWriter::TensorOf(const Argument& argument) {
  if (argument.kind != Argument::Kind::kTensor) return kNoName;
  const auto cast = spelled_casts_.find(argument.text);
  if (cast != spelled_casts_.end() && !IsOfCast(cast->second)) return GivenTo(cast->second);
  const auto found = names_.find(argument.text);
  if (found != names_.end()) return found->second;
  const Tensor* tensor = FindTensor(argument.text);
  if (tensor == nullptr || IsOnHost(argument.text, *tensor)) return kNoName;
  const NameId made = NewName(std::string(argument.text), WithPrecision(TypeOf(*tensor)));
  Emit("constant", {}, {made});
  return names_[argument.text] = made;
}

// What was cast, which may be such a cast itself: of "norm(x.to(weight.dtype))" around one of the
// norm's own.
NameId CallWriter::GivenTo(const UndoneCast& cast) {
  const Argument* given = FindArgument(*cast.call, "self");
  const bool is_cast = given != nullptr && spelled_casts_.contains(given->text);
  return is_cast ? TensorOf(*given) : cast.self;
}

// Whether the running call reads what was cast: it is within the same statement, or, where that
// binds the cast to a name ("x = x.to(torch.float32)"), of the same forward, or of one that is
// passed the name; of all, where nothing else has what was cast.
bool CallWriter::IsOfCast(const UndoneCast& cast) const {
  if (running_ == nullptr || running_->lines.empty() || cast.call->lines.empty()) return true;
  if (WayOf(*cast.call) == CastWay::kForProduct) return IsProduct(*running_);
  if (WayOf(*cast.call) == CastWay::kForPower) return IsPower(*running_);
  const SourceLine& line = cast.call->lines.back();
  const bool is_within = std::ranges::any_of(running_->lines, [&](const SourceLine& here) {
    return line.file == here.file && line.line == here.line;
  });
  if (is_within) return true;
  const std::string spelled = WithFloat32(line.text.substr(0, line.text.find(" if ")));
  const std::string_view assigned = spelled;
  if (assigned.find(" = ") == assigned.npos || !EndsWithCastToFloat32(line.file, assigned))
    return false;
  if (std::ranges::equal(cast.call->modules, running_->modules, {}, &ModuleFrame::path,
                         &ModuleFrame::path)) {
    return true;
  }
  // A product's weight has the run's type: "if weight.dtype == torch.float32: x = x.float()".
  const bool is_autocast = AutocastType(settings_.precision) != DType::kUndefined;
  const bool may_be_wide = !IsProduct(*running_) && !is_autocast;
  if (cast.replaces_local && (is_autocast || may_be_wide)) return true;
  return may_be_wide && IsPassed(*cast.call, *running_, assigned.substr(0, assigned.find(" = ")));
}

NameId CallWriter::CastResult(const Call& call, NameId self, const TensorType& type) {
  const NameId result = Result(call, type);
  // "norm(x.to(dtype=self.norm.weight.dtype))": of a stream that may be wider than the run.
  const bool is_to_weight =
      !call.lines.empty() && call.lines.back().text.ends_with(".weight.dtype))");
  const bool changes = is_to_weight || type.dtype != program_.values[Index(self)].type.dtype ||
                       AutocastType(settings_.precision) != DType::kUndefined ||
                       WayOf(call) == CastWay::kForProduct;
  const Argument* given = FindArgument(call, "self");
  const Tensor* before = given == nullptr ? nullptr : FindTensor(given->text);
  const Tensor* after = FindTensor(call.results[0].text);
  if (changes && before != nullptr && after != nullptr && before->dtype == after->dtype) {
    spelled_casts_[call.results[0].text] = {&call, self, ReplacesLocal(call, self)};
  }
  return result;
}

NameId CallWriter::GivenToCast(const Call& call) const {
  const Argument* given = FindArgument(call, "self");
  const auto cast = given == nullptr ? spelled_casts_.end() : spelled_casts_.find(given->text);
  if (cast == spelled_casts_.end() || !HidesTypes(call)) return kNoName;
  const std::vector<SourceLine>& lines = cast->second.call->lines;
  const bool is_of_line = !lines.empty() && lines.back().file == call.lines.back().file &&
                          lines.back().line == call.lines.back().line;
  return is_of_line ? cast->second.self : kNoName;
}

// "x = x.to(dtype)" where the same forward has bound x before: nothing has it by then.
bool CallWriter::ReplacesLocal(const Call& call, NameId self) const {
  if (call.lines.empty()) return false;
  const std::string_view line = call.lines.back().text;
  const std::string_view name = line.substr(0, line.find(" = "));
  return line.substr(name.size()).starts_with(" = " + std::string(name) + ".") &&
         BoundTo(call, name) == self;
}

std::optional<CastWay> CallWriter::WayOf(const Call& call) const {
  const auto way = cast_ways_.find(&call);
  return way == cast_ways_.end() ? std::nullopt : std::optional(way->second);
}

NameId CallWriter::BoundTo(const Call& call, std::string_view variable) const {
  if (call.modules.empty() || call.lines.size() != call.modules.size()) return kNoName;
  const auto found = variables_.find({call.modules.back().path, std::string(variable)});
  if (found == variables_.end()) return kNoName;
  const bool is_running = found->second.line == call.lines.back().line;
  return is_running ? found->second.before : found->second.value;
}

void CallWriter::Bind(const Call& call, std::string_view variable, NameId like) {
  if (call.modules.empty()) return;
  variables_[{call.modules.back().path, std::string(variable)}] = {.value = like};
}

NameId CallWriter::GivenToNextModule(const Call& call) const {
  const size_t depth = call.modules.size();
  const std::vector<Call>& calls =
      graphs_.size() < 2 ? graphs_.back()->calls : graphs_[graphs_.size() - 2]->calls;
  const auto runs = [&](const Call& other) {
    const auto is_body = [&](const auto& named) {
      return named.second.graph.get() == graphs_.back();
    };
    return &other == &call || std::ranges::any_of(other.arguments, is_body);
  };
  // "rotary_emb" of "rotary_emb@1", its second call.
  const auto without_turn = [](std::string_view path) { return path.substr(0, path.find('@')); };
  const auto is_next = [&](const Call& other) {
    return depth > 0 && other.modules.size() >= depth &&
           without_turn(other.modules[depth - 1].path) != without_turn(call.modules.back().path);
  };
  for (auto next = std::ranges::find_if(calls, runs); next != calls.end(); ++next) {
    const NameId made = is_next(*next) ? FirstMadeFor(*next, calls) : kNoName;
    if (made != kNoName) return made;
  }
  return kNoName;
}

NameId CallWriter::FirstMadeFor(const Call& call, const std::vector<Call>& calls) const {
  constexpr int kMostSteps = 4;
  const Call* reader = &call;
  for (int step = 0; step < kMostSteps; ++step) {
    if (const NameId known = StatesAmong(*reader); known != kNoName) return known;
    const auto is_tensor = [](const auto& named) {
      return named.second.kind == Argument::Kind::kTensor;
    };
    const auto first = std::ranges::find_if(reader->arguments, is_tensor);
    if (first == reader->arguments.end()) return kNoName;
    const std::string_view text = first->second.text;
    const auto makes = [&](const Call& other) {
      return !other.results.empty() && other.results[0].text == text;
    };
    const auto maker = std::ranges::find_if(calls, makes);
    if (maker == calls.end()) return kNoName;
    reader = &*maker;
  }
  return kNoName;
}

NameId CallWriter::StatesAmong(const Call& call) const {
  for (const auto& [name, argument] : call.arguments) {
    const auto found = names_.find(argument.text);
    if (argument.kind != Argument::Kind::kTensor || found == names_.end()) continue;
    const bool is_float = IsFloat(program_.values[Index(found->second)].type.dtype);
    const auto& parameters = program_.parameters;
    const bool is_parameter = std::ranges::find(parameters, found->second) != parameters.end();
    if (is_float && !is_parameter) return found->second;
  }
  return kNoName;
}

NameId CallWriter::BoundOrPassedTo(const Call& call, std::string_view variable) const {
  const NameId bound = BoundTo(call, variable);
  const std::vector<Call>& calls = graphs_.back()->calls;
  const bool is_own = &call >= calls.data() && &call < calls.data() + calls.size();
  if (bound != kNoName || call.modules.empty() || !is_own) return bound;
  const auto is_inside = [&](const Call& other) {
    return std::ranges::equal(call.modules, other.modules, {}, &ModuleFrame::path,
                              &ModuleFrame::path);
  };
  std::set<NameId> passed;
  for (const Call* next = &call; next < calls.data() + calls.size() && is_inside(*next); ++next) {
    for (const auto& [name, argument] : next->arguments) {
      const auto found = names_.find(argument.text);
      if (argument.kind != Argument::Kind::kTensor || found == names_.end()) continue;
      if (IsFloat(program_.values[Index(found->second)].type.dtype)) passed.insert(found->second);
    }
  }
  return passed.size() == 1 ? *passed.begin() : kNoName;
}

void CallWriter::NoteInput(const Call& call, NameId name) {
  if (!call.modules.empty()) module_inputs_[call.modules.back().path] = name;
}

NameId CallWriter::NotedInput(const Call& call) const {
  const auto noted =
      call.modules.empty() ? module_inputs_.end() : module_inputs_.find(call.modules.back().path);
  return noted == module_inputs_.end() ? kNoName : noted->second;
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
  const Argument* argument = FindArgument(call, name);
  if (argument == nullptr || argument->kind != Argument::Kind::kTensor) return nullptr;
  const NameId mask = TensorOf(*argument);
  if (!mask_parts_.contains(mask)) return nullptr;
  asked_masks_.insert(mask);
  return known_.Find(argument->text);
}

const Known* CallWriter::KnownAt(const Call& call, std::string_view name) {
  const Argument* argument = FindArgument(call, name);
  const bool is_tensor = argument != nullptr && argument->kind == Argument::Kind::kTensor;
  return is_tensor ? known_.Find(argument->text) : nullptr;
}

void CallWriter::RefuseRows(const Call& call, std::string_view table, std::string_view counted,
                            int64_t asked, int64_t most) const {
  const Argument* rows = FindArgument(call, table);
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
      const bool is_other = argument.kind == Argument::Kind::kTensor && argument.text != result;
      const auto other = is_other ? names_.find(argument.text) : names_.end();
      if (other == names_.end()) continue;
      if (IsFloat(program_.values[Index(other->second)].type.dtype)) return other->second;
    }
    maker = reader->second;
  }
  return kNoName;
}

NameId CallWriter::ReadFirstOnLine(const Call& cast) {
  const Call* first = FirstOfCastLine(graphs_.back()->calls, cast);
  return first == nullptr ? kNoName : UncastAt(*first, first->arguments[0].first);
}

NameId CallWriter::FactorOfResult(const Call& call) const {
  const auto reader = readers_.find(call.results[0].text);
  const bool is_product =
      reader != readers_.end() && (reader->second->target == "torch.ops.aten.mul.Tensor" ||
                                   reader->second->target == "torch.ops.aten.einsum.default");
  if (!is_product) return kNoName;
  for (const std::string_view operand : OperandsOf(*reader->second)) {
    if (operand == call.results[0].text) continue;
    const auto other = names_.find(operand);
    return other == names_.end() ? kNoName : other->second;
  }
  return kNoName;
}

bool CallWriter::EndsIndexing(const Call& call) const {
  constexpr std::string_view kSteps[] = {"torch.ops.aten.slice.Tensor", "torch.ops.aten.select.int",
                                         "torch.ops.aten.unsqueeze.default",
                                         "torch.ops.aten.index.Tensor"};
  const auto reader = readers_.find(call.results[0].text);
  if (reader == readers_.end() || reader->second->lines.empty() || call.lines.empty()) return false;
  const Call& next = *reader->second;
  const bool is_written = next.target == "torch.ops.aten.copy_.default";
  const bool is_step = std::ranges::find(kSteps, next.target) != std::end(kSteps);
  return !is_written && (!is_step || next.lines.back().line != call.lines.back().line);
}

bool CallWriter::IsOfLine(NameId name) const {
  if (program_.calls.empty() || place_.frames.empty()) return false;
  const AtenCall& last = program_.calls.back();
  return last.frames == place_.frames && !last.outputs.empty() && last.outputs[0] == name;
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

int64_t CallWriter::NumelOf(const Argument& argument) const {
  const bool is_tensor = argument.kind == Argument::Kind::kTensor;
  const Tensor* tensor = is_tensor ? FindTensor(argument.text) : nullptr;
  return tensor == nullptr ? 0 : Numel(TypeOf(*tensor).dims);
}

// --- Results -----------------------------------------------------------------------------------

const Tensor* CallWriter::FindTensor(std::string_view name) const {
  for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph) {
    const auto found = (*graph)->tensors.find(name);
    if (found != (*graph)->tensors.end()) return &found->second;
  }
  return nullptr;
}

// Where the module is elsewhere, what the file has on the CPU takes no memory there: a number to
// other calls, until one brings it to the device.
bool CallWriter::IsOnHost(std::string_view name, const Tensor& tensor) const {
  if (numbers_.contains(name)) return true;
  const bool is_apart = tensor.device == "cpu" && !device_.empty() && device_ != "cpu";
  return is_apart && !moved_.contains(name);
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
    const bool is_list = first.kind == Argument::Kind::kList && !first.items.empty();
    tensor = FindTensor(is_list ? first.items[0].text : first.text);
  }
  return tensor == nullptr ? TensorType() : WithPrecision(TypeOf(*tensor));
}

DType CallWriter::OwnTypeOfResult(const Call& call) const {
  const Tensor* made = call.results.empty() ? nullptr : FindTensor(call.results[0].text);
  if (made == nullptr || !IsFloat(made->dtype) || BitsOf(made->dtype) < 16)
    return DType::kUndefined;
  const bool is_given = std::ranges::any_of(exported_.inputs, [&](const InputSpec& spec) {
    const Tensor* input = FindTensor(spec.name);
    return input != nullptr && input->dtype == made->dtype;
  });
  return is_given || made->dtype == DType::kFloat32 ? DType::kUndefined : made->dtype;
}

std::vector<NameId> CallWriter::Results(const Call& call) {
  std::vector<NameId> results;
  const auto add = [&](const Argument& result) {
    const Tensor* tensor =
        result.kind == Argument::Kind::kTensor ? FindTensor(result.text) : nullptr;
    if (tensor == nullptr || IsOnHost(result.text, *tensor)) return results.push_back(kNoName);
    names_[result.text] = NewName(std::string(result.text), WithPrecision(TypeOf(*tensor)));
    results.push_back(names_[result.text]);
  };
  for (const Argument& result : call.results) {
    if (result.kind != Argument::Kind::kList) add(result);
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

void CallWriter::ReturnDetached(const Call& call, NameId name) {
  const bool left = place_.leaves_autograd;
  place_.leaves_autograd = true;
  Emit("view", {name}, {Result(call, program_.values[Index(name)].type)});
  place_.leaves_autograd = left;
}

void CallWriter::EmitOutsideAutocast(std::string_view op, std::vector<NameId> inputs,
                                     std::vector<NameId> outputs, std::vector<int64_t> ints) {
  const bool left = place_.leaves_autocast;
  place_.leaves_autocast = true;
  Emit(op, std::move(inputs), std::move(outputs), std::move(ints));
  place_.leaves_autocast = left;
}

void CallWriter::ReturnSame(const Call& call, NameId name) {
  if (!call.results.empty()) names_[call.results[0].text] = name;
}

void CallWriter::CopyResults(const Call& call) {
  const auto copy = [&](const Argument& result) {
    const auto found = names_.find(result.text);
    if (result.kind != Argument::Kind::kTensor || found == names_.end()) return;
    const NameId view = found->second;
    const NameId made = NewName(std::string(result.text), program_.values[Index(view)].type);
    Emit("clone", {view}, {made});
    found->second = made;
  };
  for (const Argument& result : call.results) {
    copy(result);
    for (const Argument& item : result.items) copy(item);
  }
}

}  // namespace onnxfit::pt2

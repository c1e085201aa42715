// Whose type a cast of the model's own has, which the file gives as fp32: "out.to(x.dtype)",
// "out.to(in_dtype)".
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/identifiers.h"
#include "estimator/program/source_statement.h"
#include "estimator/pt2/call_writer.h"

namespace onnxfit::pt2 {
namespace {

constexpr std::string_view kToTypes[] = {
    "torch.ops.aten.to.dtype", "torch.ops.aten._to_copy.default", "torch.ops.aten.to.dtype_layout",
    "torch.ops.aten.to.device"};

bool IsCastToType(const Call& call) {
  return std::ranges::find(kToTypes, call.target) != std::end(kToTypes) &&
         FindArgument(call, "dtype") != nullptr;
}

// Whether `call` runs in the forward that runs `within`, or in a module that it calls.
bool IsInForwardOf(const Call& call, const Call& within) {
  const size_t depth = within.modules.size();
  return depth > 0 && call.modules.size() >= depth && call.lines.size() >= depth &&
         call.modules[depth - 1].path == within.modules[depth - 1].path;
}

// Whether a line reads the variable, and not its type alone.
bool HasWord(std::string_view line, std::string_view word) {
  for (size_t at = FindWord(line, word); at != line.npos; at = FindWord(line, word, at + 1)) {
    if (!line.substr(at + word.size()).starts_with(".dtype")) return true;
  }
  return false;
}

bool IsOnLineOf(const Call& call, const Call& within) {
  return IsInForwardOf(call, within) &&
         call.lines[within.lines.size() - 1].line == within.lines.back().line;
}

}  // namespace

std::optional<SpelledCast> CallWriter::SpellingOf(const Call& cast) const {
  const std::span<const Call> forward = ForwardAround(cast);
  if (forward.empty()) return std::nullopt;
  std::vector<SpelledCast> spelled = SpelledCastsOf(WithFloat32(cast.lines.back().text));
  const auto is_by_other = [&](const SpelledCast& other) {
    return !cast.method.empty() && other.method != cast.method;
  };
  std::erase_if(spelled, is_by_other);
  const auto is_twin = [&](const Call& call) {
    return call.modules.size() == cast.modules.size() && IsOnLineOf(call, cast) &&
           IsCastToType(call) && call.method == cast.method;
  };
  const auto before = static_cast<size_t>(std::ranges::count_if(
      forward, [&](const Call& call) { return &call < &cast && is_twin(call); }));
  const auto all = static_cast<size_t>(std::ranges::count_if(forward, is_twin));
  if (all != spelled.size() || before >= all) return std::nullopt;
  return spelled[before];
}

std::span<const Call> CallWriter::ForwardAround(const Call& call) const {
  const std::vector<Call>& calls = graphs_.back()->calls;
  const bool is_own = &call >= calls.data() && &call < calls.data() + calls.size();
  if (!is_own || call.lines.empty() || call.lines.size() != call.modules.size()) return {};
  const Call* first = &call;
  const Call* last = &call;
  while (first != calls.data() && IsInForwardOf(*(first - 1), call)) --first;
  while (last + 1 != calls.data() + calls.size() && IsInForwardOf(*(last + 1), call)) ++last;
  return {first, last + 1};
}

NameId CallWriter::TypeGiverOf(const Call& cast) {
  const std::optional<SpelledCast> spelled = SpellingOf(cast);
  if (!spelled.has_value()) return kNoName;
  NoteReceiver(cast, *spelled);
  if (const NameId other = BoundTo(cast, spelled->type); other != kNoName) return other;  // x.to(y)
  const std::string_view tensor = TypedTensor(spelled->type);
  if (!IsIdentifier(tensor)) return kNoName;
  if (const NameId bound = BoundTo(cast, tensor); bound != kNoName) return bound;
  const Call* binding = LastBinding(cast, tensor);
  return binding == nullptr ? PassedAs(cast, tensor) : PartBoundTo(cast, *binding, tensor);
}

void CallWriter::EmitTypedLike(NameId like, NameId self, NameId result) {
  Emit("to", {self}, {result});
  program_.calls.back().typed_like = like;
}

// What a forward casts by a name that no statement of its has bound was passed to it.
void CallWriter::NoteReceiver(const Call& cast, const SpelledCast& spelled) {
  if (!IsIdentifier(spelled.receiver) || LastBinding(cast, spelled.receiver) != nullptr) return;
  const NameId self = TensorAt(cast, "self");
  if (self != kNoName) passed_.try_emplace({cast.modules.back().path, spelled.receiver}, self);
}

// A variable holds a type to go back to: that of what was cast to fp32 first, of all that has
// become what is cast now.
NameId CallWriter::HeldTypeOf(const Call& cast) {
  const std::optional<SpelledCast> back = SpellingOf(cast);
  if (!back.has_value() || !IsIdentifier(back->type)) return kNoName;
  const Call* const begin = ForwardAround(cast).data();
  const Call* first = nullptr;
  std::set<std::string_view> on_the_way;
  AddNames(cast.arguments[0].second, on_the_way);
  for (const Call* call = &cast; call != begin;) {
    --call;
    const auto leads = [&](const Argument& result) { return on_the_way.contains(result.text); };
    if (std::ranges::none_of(call->results, leads)) continue;
    for (const auto& [name, argument] : call->arguments) AddNames(argument, on_the_way);
    if (WidensFloats(*call)) first = call;
  }
  return first == nullptr ? kNoName : UncastAt(*first, "self");
}

// "x = x.float()" of what is no whole number.
bool CallWriter::WidensFloats(const Call& call) const {
  if (!IsCastToType(call)) return false;
  const Tensor* given = FindTensor(call.arguments[0].second.text);
  const std::optional<SpelledCast> spelled = SpellingOf(call);
  return given != nullptr && IsFloat(given->dtype) && spelled.has_value() &&
         spelled->type == "torch.float32";
}

std::vector<std::string> CallWriter::TargetsAround(const Call& call, size_t level) {
  const SourceLine& line = call.lines[level];
  return program_.source.At(program_.source.Read(line.line, line.text, line.file)).targets;
}

// The last call of a statement before that of `call`, in its forward, that binds the variable, be
// it beside others; null without one.
const Call* CallWriter::LastBinding(const Call& call, std::string_view variable) {
  const std::span<const Call> forward = ForwardAround(call);
  const Call* other = &call;
  while (other != forward.data() && IsOnLineOf(*(other - 1), call)) --other;
  const size_t level = call.modules.size() - 1;
  while (other != forward.data()) {
    --other;
    if (other->lines[level].text.find(variable) == std::string_view::npos) continue;
    const std::vector<std::string> targets = TargetsAround(*other, level);
    if (std::ranges::find(targets, variable) != targets.end()) return other;
  }
  return nullptr;
}

// What "q, k, v = self.q(x), self.k(x), self.v(x)", whose last call is `last`, binds to one of them
// in the forward of `call`: the line makes as many tensors that itself reads no more.
NameId CallWriter::PartBoundTo(const Call& call, const Call& last, std::string_view variable) {
  const size_t level = call.modules.size() - 1;
  const Call* const begin = ForwardAround(call).data();
  std::set<std::string_view> read;
  std::vector<std::string_view> parts;
  for (const Call* other = &last; other->lines[level].line == last.lines[level].line; --other) {
    for (const Argument& result : other->results) {
      const bool is_part = !read.contains(result.text) && names_.contains(result.text);
      if (is_part) parts.push_back(result.text);
    }
    for (const auto& [name, argument] : other->arguments) AddNames(argument, read);
    if (other == begin) break;
  }
  std::ranges::reverse(parts);
  const std::vector<std::string> targets = TargetsAround(last, level);
  const auto at = static_cast<size_t>(std::ranges::find(targets, variable) - targets.begin());
  return parts.size() == targets.size() && at < parts.size() ? names_[parts[at]] : kNoName;
}

// The tensor of floats that the forward was passed by that name: as it casts it by it, the only
// one, or the only one of those that lines read which name it.
NameId CallWriter::PassedAs(const Call& call, std::string_view variable) {
  const auto known = passed_.find({call.modules.back().path, std::string(variable)});
  if (known != passed_.end()) return known->second;
  std::set<std::string_view> made;
  std::map<NameId, bool> passed;  // whether all lines that read it name the variable
  for (const Call& reader : ForwardAround(call)) {
    const bool is_named = HasWord(reader.lines[call.modules.size() - 1].text, variable);
    for (const NameId tensor : PassedFloats(reader, made)) {
      const bool has_been = passed.try_emplace(tensor, true).first->second;
      passed[tensor] = has_been && is_named;
    }
    for (const Argument& result : reader.results) AddNames(result, made);
  }
  if (passed.size() > 1) std::erase_if(passed, [](const auto& read) { return !read.second; });
  return passed.size() == 1 ? passed.begin()->first : kNoName;
}

// The tensors of floats that `call` reads and that neither are the module's nor among `made`.
std::vector<NameId> CallWriter::PassedFloats(const Call& call,
                                             const std::set<std::string_view>& made) {
  std::vector<NameId> floats;
  for (const std::string_view name : OperandsOf(call)) {
    const bool is_own = std::ranges::any_of(exported_.inputs, [&](const InputSpec& spec) {
      return spec.name == name && spec.kind != InputSpec::Kind::kUser;
    });
    const bool is_there = names_.contains(name) || spelled_casts_.contains(name);
    if (is_own || !is_there || made.contains(name)) continue;
    const NameId tensor = TensorOf(Argument{.kind = Argument::Kind::kTensor, .text = name});
    if (tensor != kNoName && IsFloat(program_.values[Index(tensor)].type.dtype))
      floats.push_back(tensor);
  }
  return floats;
}

}  // namespace onnxfit::pt2

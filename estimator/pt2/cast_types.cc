// Whose type a cast of the model's own has, which the file gives as fp32: "out.to(x.dtype)",
// "out.to(in_dtype)".
#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/index.h"
#include "estimator/program/forward_variables.h"
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

bool IsOnLineOf(const Call& call, const Call& within) {
  return IsInForwardOf(call, within) &&
         call.lines[within.lines.size() - 1].line == within.lines.back().line;
}

}  // namespace

// The calls of a forward, as the exporter wrote them; of tensors those that are written so far.
class CallWriter::CallsOfForward final : public LinedCalls {
 public:
  // Around `call`.
  CallsOfForward(CallWriter& writer, const Call& call)
      : writer_(writer), calls_(writer.ForwardAround(call)), level_(call.modules.size() - 1) {}

  size_t IndexOf(const Call& call) const { return static_cast<size_t>(&call - calls_.data()); }
  const Call& At(size_t call) const { return calls_[call]; }

  size_t size() const override { return calls_.size(); }
  int64_t StatementAt(size_t call) const override { return LineAt(call).line; }
  std::string_view TextAt(size_t call) const override { return LineAt(call).text; }
  std::vector<std::string> TargetsAt(size_t call) const override {
    SourceLines& source = writer_.program_.source;
    const SourceLine& line = LineAt(call);
    return source.At(source.Read(line.line, line.text, line.file)).targets;
  }
  std::vector<std::string_view> ReadsAt(size_t call) const override {
    return OperandsOf(calls_[call]);
  }
  std::vector<std::string_view> MakesAt(size_t call) const override {
    std::vector<std::string_view> made;
    const auto add = [&](std::string_view name) {
      if (writer_.names_.contains(name)) made.push_back(name);
    };
    for (const Argument& result : calls_[call].results) {
      add(result.text);
      for (const Argument& item : result.items) add(item.text);
    }
    return made;
  }
  TensorIndex FindPassed(std::string_view tensor) const override {
    const bool is_own = std::ranges::any_of(writer_.exported_.inputs, [&](const InputSpec& spec) {
      return spec.name == tensor && spec.kind != InputSpec::Kind::kUser;
    });
    const bool is_there =
        writer_.names_.contains(tensor) || writer_.spelled_casts_.contains(tensor);
    if (is_own || !is_there) return kNoName;
    const NameId name = writer_.TensorOf(Argument{.kind = Argument::Kind::kTensor, .text = tensor});
    const bool is_float =
        name != kNoName && IsFloat(writer_.program_.values[Index(name)].type.dtype);
    return is_float ? name : kNoName;
  }

 private:
  const SourceLine& LineAt(size_t call) const { return calls_[call].lines[level_]; }

  CallWriter& writer_;
  std::span<const Call> calls_;
  size_t level_;
};

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
  const CallsOfForward forward(*this, cast);
  NoteReceiver(cast, *spelled, forward);
  if (const NameId other = BoundTo(cast, spelled->type); other != kNoName) return other;  // x.to(y)
  const std::string_view tensor = TypedTensor(spelled->type);
  if (!IsIdentifier(tensor)) return kNoName;
  if (const NameId bound = BoundTo(cast, tensor); bound != kNoName) return bound;
  const size_t binding = LastBinding(forward, forward.IndexOf(cast), tensor);
  if (binding == forward.size()) {
    const auto known = passed_.find({cast.modules.back().path, std::string(tensor)});
    return known == passed_.end() ? PassedAs(forward, tensor) : known->second;
  }
  const auto part = names_.find(PartBoundTo(forward, binding, tensor));
  return part == names_.end() ? kNoName : part->second;
}

void CallWriter::EmitTypedLike(NameId like, NameId self, NameId result) {
  Emit("to", {self}, {result});
  program_.calls.back().typed_like = like;
}

// What a forward casts by a name that no statement of its has bound was passed to it.
void CallWriter::NoteReceiver(const Call& cast, const SpelledCast& spelled,
                              const CallsOfForward& forward) {
  const std::string& name = spelled.receiver;
  if (!IsIdentifier(name)) return;
  if (LastBinding(forward, forward.IndexOf(cast), name) != forward.size()) return;
  const NameId self = TensorAt(cast, "self");
  if (self != kNoName) passed_.try_emplace({cast.modules.back().path, name}, self);
}

// A variable holds a type to go back to: that of what was cast to fp32 first, of all that has
// become what is cast now.
NameId CallWriter::HeldTypeOf(const Call& cast) {
  const std::optional<SpelledCast> back = SpellingOf(cast);
  if (!back.has_value() || !IsIdentifier(back->type)) return kNoName;
  const CallsOfForward forward(*this, cast);
  const auto widens = [&](size_t call) { return WidensFloats(forward.At(call)); };
  const size_t first = FirstWidened(forward, forward.IndexOf(cast), OperandsOf(cast), widens);
  return first == forward.size() ? kNoName : UncastAt(forward.At(first), "self");
}

// "x = x.float()" of what is no whole number.
bool CallWriter::WidensFloats(const Call& call) const {
  if (!IsCastToType(call)) return false;
  const Tensor* given = FindTensor(call.arguments[0].second.text);
  const std::optional<SpelledCast> spelled = SpellingOf(call);
  return given != nullptr && IsFloat(given->dtype) && spelled.has_value() &&
         spelled->type == "torch.float32";
}

}  // namespace onnxfit::pt2

#include "estimator/exporters/call_parts.h"

#include <algorithm>

#include "estimator/base/index.h"
#include "estimator/program/identifiers.h"

namespace onnxfit {
namespace {

bool IsReference(const FxArgument& argument) {
  return argument.kind == FxArgument::Kind::kReference;
}

}  // namespace

std::string_view NameInTarget(std::string_view target) {
  const size_t space = target.find('.');
  if (space == std::string_view::npos) return target;
  target.remove_prefix(space + 1);
  return target.substr(0, target.find('.'));
}

void PartsMatch::Take(int32_t index) {
  if (std::ranges::find(taken_, index) == taken_.end()) taken_.push_back(index);
}

bool HasSubscript(std::string_view line) {
  for (size_t at = line.find('['); at != std::string_view::npos; at = line.find('[', at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    if (IsPartOfIdentifier(before) || before == ')' || before == ']') return true;
  }
  return false;
}

ValueId PartsMatch::Letter(char letter) const {
  return groups_.ValueOf(letters_[Index(letter - 'a')]);
}

// A size, or a number made of sizes: torch.export refers to those as it does to tensors.
bool PartsMatch::IsSize(const FxArgument& argument) const {
  const int32_t index = IsReference(argument) ? groups_.Find(argument.text) : -1;
  if (index < 0) return false;
  const std::string_view target = groups_.At(index).call.target;
  return target.starts_with("aten.sym_size.") || target.starts_with("operator.");
}

bool PartsMatch::HasTensor(const FxArgument& argument) const {
  return (IsReference(argument) && !IsSize(argument)) ||
         std::ranges::any_of(argument.items,
                             [&](const FxArgument& item) { return HasTensor(item); });
}

bool PartsMatch::Call(int32_t index) {
  const std::string_view name = TakeName();
  if (index < 0 || NameInTarget(groups_.At(index).call.target) != name) return false;
  Take(index);
  return Items(groups_.At(index).call.arguments, ')');
}

// From an opening bracket to `close`.
bool PartsMatch::Items(const std::vector<FxArgument>& arguments, char close) {
  rest_.remove_prefix(1);
  size_t i = 0;
  while (true) {
    if (i == arguments.size() || !Term(arguments[i++])) return false;
    const char mark = rest_.front();
    rest_.remove_prefix(1);
    if (mark == close) break;
  }
  return std::none_of(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end(),
                      [&](const FxArgument& argument) { return HasTensor(argument); });
}

bool PartsMatch::Term(const FxArgument& argument) {
  const char mark = rest_.front();
  if (mark == '[') return Items(argument.items, ']');
  if (mark == '^') {
    rest_.remove_prefix(1);
    FxArgument whole;
    return TakeSums(argument, whole) && Term(whole);
  }
  const bool is_letter = rest_.size() > 1 && !IsPartOfIdentifier(rest_[1]);
  if (!is_letter) return IsReference(argument) && Call(groups_.Find(argument.text));
  rest_.remove_prefix(1);
  if (mark == '#') return TakeFilled(argument, /*is_number=*/true);
  if (mark == '~') return TakeFilled(argument, /*is_number=*/false);
  if (mark == '%') return TakeMadeOfNumbers(argument);
  if (mark == '_') return !HasTensor(argument);
  return Bind(mark, argument);
}

bool PartsMatch::Bind(char letter, const FxArgument& argument) {
  if (!IsReference(argument)) return false;
  std::string_view& bound = letters_[Index(letter - 'a')];
  if (!bound.empty()) return bound == argument.text;
  bound = argument.text;
  if (rest_.front() != ':') return true;
  rest_.remove_prefix(1);
  return Term(argument);
}

bool PartsMatch::TakeFilled(const FxArgument& argument, bool is_number) {
  if (!IsReference(argument)) return is_number && argument.kind == FxArgument::Kind::kNumber;
  const int32_t index = groups_.Find(argument.text);
  if (index < 0) return false;
  const FxNode& call = groups_.At(index).call;
  const bool fills = FillsTensor(call.target) || call.target == "aten.scalar_tensor.default" ||
                     call.target == "aten.empty_like.default";
  const bool refills = call.target.starts_with("aten.fill.") && !call.arguments.empty() &&
                       TakeFilled(call.arguments[0], is_number);
  if (!fills && !refills) return false;
  Take(index);
  return true;
}

// Down to the one tensor of which `argument` sums up parts.
bool PartsMatch::TakeSums(const FxArgument& argument, FxArgument& whole) {
  const int32_t index = IsReference(argument) ? groups_.Find(argument.text) : -1;
  if (index < 0) return false;
  const FxNode& call = groups_.At(index).call;
  const std::string_view name = NameInTarget(call.target);
  if (name != "add" && name != "select") {
    if (whole.text.empty()) whole = argument;
    return whole.text == argument.text;
  }
  Take(index);
  const size_t count = name == "add" ? 2 : 1;
  return call.arguments.size() >= count && TakeSums(call.arguments[0], whole) &&
         (count == 1 || TakeSums(call.arguments[1], whole));
}

bool PartsMatch::TakeMadeOfNumbers(const FxArgument& argument) {
  if (argument.kind == FxArgument::Kind::kList) {
    return std::ranges::all_of(argument.items,
                               [&](const FxArgument& item) { return TakeMadeOfNumbers(item); });
  }
  if (!IsReference(argument) || IsSize(argument)) return true;
  const int32_t index = groups_.Find(argument.text);
  if (index < 0) return false;
  if (std::ranges::find(taken_, index) != taken_.end()) return true;
  Take(index);
  return std::ranges::all_of(groups_.At(index).call.arguments,
                             [&](const FxArgument& operand) { return TakeMadeOfNumbers(operand); });
}

std::string_view PartsMatch::TakeName() {
  const std::string_view name = rest_.substr(0, rest_.find('('));
  rest_.remove_prefix(name.size());
  return name;
}

}  // namespace onnxfit

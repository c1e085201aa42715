#include "estimator/program/source_statement.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "estimator/base/text.h"
#include "estimator/program/identifiers.h"
#include "estimator/program/modules.h"

namespace onnxfit {
namespace {

// Where `mark` first stands outside of brackets and quotes; npos where it does not.
size_t FindOutside(std::string_view line, char mark) {
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == mark && depth == 0) {
      return i;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else {
      depth += (c == '(' || c == '[' || c == '{') ? 1 : (c == ')' || c == ']' || c == '}') ? -1 : 0;
    }
  }
  return std::string_view::npos;
}

// "x = b(x)" of "for b in self.blocks: x = b(x)"; a line without such a head as it is.
std::string_view BodyOf(std::string_view line) {
  constexpr std::string_view kHeads[] = {"for ", "if ", "elif ", "else:", "while ", "with "};
  const bool has_head = std::any_of(std::begin(kHeads), std::end(kHeads),
                                    [&](std::string_view head) { return line.starts_with(head); });
  const size_t colon = has_head ? FindOutside(line, ':') : std::string_view::npos;
  return colon == std::string_view::npos ? line : Trimmed(line.substr(colon + 1));
}

// Where the first "=" is that assigns, also to "(a, b)"; npos where none does.
size_t Assignment(std::string_view line) {
  const size_t begin = line.starts_with('(') ? std::min(line.find(')'), line.size()) : 0;
  for (size_t i = begin; i < line.size(); ++i) {
    if (line[i] == '(' || line[i] == '[' || line[i] == '\'' || line[i] == '"') break;
    if (line[i] != '=') continue;
    const bool compares =
        (i + 1 < line.size() && line[i + 1] == '=') ||
        (i > 0 && std::string_view("=!<>").find(line[i - 1]) != std::string_view::npos);
    return compares ? std::string_view::npos : i;
  }
  return std::string_view::npos;
}

// "x" of "y = r(cat([u(x), s.pop()]))": where one call of a plain name has a plain argument.
std::string OnlyArgument(std::string_view line) {
  std::string found;
  for (size_t open = line.find('('); open != std::string_view::npos;
       open = line.find('(', open + 1)) {
    const size_t close = line.find_first_of("(),", open + 1);
    if (close == std::string_view::npos || line[close] != ')') continue;
    const std::string_view argument = line.substr(open + 1, close - open - 1);
    const std::string_view before = line.substr(0, open);
    const size_t start = before.find_last_of(" ([,=.") + 1;
    const bool is_plain = start == 0 || before[start - 1] != '.';
    if (!is_plain || !IsIdentifier(before.substr(start)) || !IsIdentifier(argument)) continue;
    if (!found.empty()) return "";
    found = argument;
  }
  return found;
}

// What a line returns or assigns; "" where it does neither.
std::string_view ValueOf(std::string_view line) {
  constexpr std::string_view kReturn = "return ";
  if (line.starts_with(kReturn)) return Trimmed(line.substr(kReturn.size()));
  const size_t assigned = Assignment(line);
  return assigned == std::string_view::npos ? std::string_view()
                                            : Trimmed(line.substr(assigned + 1));
}

// The names that one statement assigns to.
// "self.attn"
bool IsAttribute(std::string_view name) {
  return name.starts_with("self.") && IsIdentifier(name.substr(5));
}

std::vector<std::string> TargetsOfOne(std::string_view line) {
  const size_t at = Assignment(line);
  if (at == std::string_view::npos) return {};
  std::string_view left = Trimmed(line.substr(0, at));
  while (!left.empty() && std::string_view("+-*/@").find(left.back()) != std::string_view::npos) {
    left.remove_suffix(1);
  }
  left = left.substr(0, left.find(':'));
  if (left.starts_with('(') && left.ends_with(')')) left = left.substr(1, left.size() - 2);
  std::vector<std::string> targets;
  while (true) {
    const size_t comma = left.find(',');
    const std::string_view name = Trimmed(left.substr(0, comma));
    if (!IsIdentifier(name) && !IsAttribute(name)) return {};
    targets.emplace_back(name);
    if (comma == std::string_view::npos) return targets;
    left.remove_prefix(comma + 1);
  }
}

// "a" and "b" of "x = a + b", "return norm(a * b)".
std::pair<std::string, std::string> SumOperands(std::string_view line) {
  std::pair<std::string, std::string> found;
  for (size_t at = line.find_first_of("+*"); at != std::string_view::npos;
       at = line.find_first_of("+*", at + 1)) {
    if (at == 0 || line[at - 1] != ' ' || !line.substr(at + 1).starts_with(' ')) continue;
    const std::string_view before = line.substr(0, at - 1);
    const std::string_view left = before.substr(before.find_last_of(" (=") + 1);
    const std::string_view after = line.substr(at + 2);
    const std::string_view right = after.substr(0, after.find_first_of(" ),"));
    if (!found.first.empty() || !IsIdentifier(left) || !IsIdentifier(right)) return {};
    found = {std::string(left), std::string(right)};
  }
  return found;
}

// "f(a) * 0.5" and "b" of "x = f(a) * 0.5 + b": the terms of the value, if it is a sum of two; of
// the second no more than its line, where that goes on below.
std::pair<std::string_view, std::string_view> TermsOf(std::string_view line) {
  const std::string_view value = ValueOf(BodyOf(line));
  int depth = 0;
  size_t plus = value.npos;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c != '+' || depth != 0) continue;
    if (plus != value.npos || i == 0 || value[i - 1] != ' ') return {};
    plus = i;
  }
  if (plus == value.npos || plus + 2 > value.size()) return {};
  return {value.substr(0, plus - 1), value.substr(plus + 2)};
}

// "" and "b" of "x = f(a) * 0.5 + b": those that are plain names.
std::pair<std::string, std::string> SumTerms(std::string_view line) {
  const auto plain = [](std::string_view term) {
    return std::string(IsIdentifier(term) ? term : "");
  };
  const auto [left, right] = TermsOf(line);
  return {plain(left), plain(right)};
}

// "a" of "a * self.scale", else "".
std::string ScaledName(std::string_view term) {
  constexpr std::string_view kTimes = " * ";
  const size_t times = std::min(term.find(kTimes), term.size());
  const std::string_view name = term.substr(0, times);
  const bool is_scaled =
      times < term.size() && IsIdentifier(name) && IsAttribute(term.substr(times + kTimes.size()));
  return std::string(is_scaled ? name : "");
}

// "a" and "" of "x = a * self.scale + f(b)".
std::pair<std::string, std::string> ScaledTerms(std::string_view line) {
  const auto [left, right] = TermsOf(line);
  return {ScaledName(left), ScaledName(right)};
}

// "x" of "y = x.view(shape)".
std::string ReceiverOf(std::string_view line) {
  constexpr std::string_view kNoTensors[] = {"self", "torch", "nn", "F", "math", "np"};
  const std::string_view value = ValueOf(line);
  const size_t dot = value.find('.');
  if (dot == std::string_view::npos || value.find('(', dot) == std::string_view::npos) return "";
  const std::string_view name = value.substr(0, dot);
  const bool is_module =
      std::find(std::begin(kNoTensors), std::end(kNoTensors), name) != std::end(kNoTensors);
  return IsIdentifier(name) && !is_module ? std::string(name) : "";
}

// "xs" of "y = torch.cat(xs, dim=1)"; "" of "torch.cat([x, y])".
std::string JoinedList(std::string_view line) {
  constexpr std::string_view kJoins[] = {"torch.cat(", "torch.stack(", "torch.concat(",
                                         "torch.hstack(", "torch.vstack("};
  for (const std::string_view join : kJoins) {
    const size_t at = line.find(join);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + join.size());
    const std::string_view name = Trimmed(rest.substr(0, rest.find_first_of(",)")));
    return IsIdentifier(name) ? std::string(name) : "";
  }
  return "";
}

// "xs" of "xs.append(self.conv(x))".
std::string AppendedList(std::string_view line) {
  const std::string_view body = BodyOf(line);
  const size_t at = body.find(".append(");
  const std::string_view name = body.substr(0, at == std::string_view::npos ? 0 : at);
  return IsIdentifier(name) ? std::string(name) : "";
}

// "xs" of "xs[i] = f(x)"; "" of others.
std::string ItemOwner(std::string_view line) {
  const std::string_view body = BodyOf(line);
  const std::string_view name = body.substr(0, body.find('['));
  const size_t close = body.find("] = ");
  const bool is_item = name.size() < body.size() && body.find('=') == close + 2;
  return is_item && IsIdentifier(name) ? std::string(name) : "";
}

// "features" of "self.features(x)", else "".
std::string_view OwnCall(std::string_view value) {
  constexpr std::string_view kSelf = "self.";
  if (!value.starts_with(kSelf)) return {};
  value.remove_prefix(kSelf.size());
  const std::string_view name = value.substr(0, value.find('('));
  return IsIdentifier(name) && name.size() < value.size() ? name : std::string_view();
}

// Whether its first parenthesis is closed at its end, or in a line below.
bool IsOneCall(std::string_view value) {
  int depth = 0;
  for (size_t i = value.find('('); i < value.size(); ++i) {
    depth += value[i] == '(' ? 1 : value[i] == ')' ? -1 : 0;
    if (depth == 0) return i + 1 == value.size();
  }
  return depth > 0;
}

// "attend" of "x = x + self.attend(y)" and of "x = self.attend(y) + x", else "".
std::string_view AddedOwnCall(std::string_view line) {
  const auto [left, right] = TermsOf(line);
  for (const auto& [term, other] : {std::pair(left, right), std::pair(right, left)}) {
    if (IsIdentifier(other) && IsOneCall(term)) return OwnCall(term);
  }
  return {};
}

// "rotate" of "q, k = rotate(q, k)": a function that is called last, by its plain name.
std::string_view OutermostFunction(std::string_view line) {
  const std::string_view value = ValueOf(line);
  const size_t open = value.find('(');
  const bool is_call = open != value.npos && IsIdentifier(value.substr(0, open));
  return is_call && IsOneCall(value) ? value.substr(0, open) : std::string_view();
}

// "r(…)", "self.conv(…)"; not "F.relu(…)".
int64_t CountModuleCalls(std::string_view line) {
  int64_t calls = 0;
  const std::string_view body = BodyOf(line);
  for (size_t open = body.find('('); open != std::string_view::npos;
       open = body.find('(', open + 1)) {
    const std::string_view before = body.substr(0, open);
    const std::string_view callee = before.substr(before.find_last_of(" ([,=") + 1);
    if (IsIdentifier(callee) || callee.starts_with("self.")) ++calls;
  }
  return calls;
}

// Of several statements on one line, those of the last.
// "\"full\"" of "\"full\": mask(x),": what a dict holds, under a name that no variable has.
std::string_view ItemOf(std::string_view line) {
  const size_t end = line.find("\": ");
  return line.starts_with('"') && end != line.npos ? line.substr(0, end + 1) : "";
}

std::vector<std::string> TargetsOf(std::string_view line) {
  if (const std::string_view item = ItemOf(line); !item.empty()) return {std::string(item)};
  std::vector<std::string> targets;
  std::string_view rest = BodyOf(line);
  while (!rest.empty()) {
    const size_t end = std::min(FindOutside(rest, ';'), rest.size());
    std::vector<std::string> found = TargetsOfOne(Trimmed(rest.substr(0, end)));
    if (!found.empty()) targets = std::move(found);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return targets;
}

// "layer(x," whose arguments go on below, but not "(t.view(n)", which is in parentheses itself.
bool LeavesCallOpen(std::string_view value) {
  std::vector<size_t> open;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '(') open.push_back(i);
    if (value[i] == ')' && !open.empty()) open.pop_back();
  }
  return std::ranges::any_of(open, [&](size_t at) {
    const unsigned char before = at == 0 ? ' ' : static_cast<unsigned char>(value[at - 1]);
    return std::isalnum(before) != 0 || before == '_' || before == ']' || before == ')';
  });
}

// "x", "self.layer" and "self.layers[i]" of lines that call them: "y = x(z)".
std::string_view CalleeOf(std::string_view line) {
  const std::string_view before = line.substr(0, line.find('('));
  return before.substr(before.find_last_of(" =") + 1);
}

// "x" of "y = block(x, size)" and "y = self.blocks[i](x)"; "" of what is no plain name.
std::string_view FirstArgument(std::string_view line) {
  const size_t open = line.find('(', line.find(" = "));
  if (open == line.npos) return "";
  const std::string_view rest = line.substr(open + 1);
  const std::string_view name = rest.substr(0, rest.find_first_of(",)"));
  return IsIdentifier(name) ? name : "";
}

bool IsComprehension(std::string_view line) {
  const size_t loop = line.find(" for ");
  const size_t list = line.find(" = [");
  return list != line.npos && loop != line.npos && list < loop;
}

}  // namespace

bool IsGenerated(std::string_view text) {
  return text.find(" = torch.ops.") != std::string_view::npos;
}

SourceStatement ReadStatement(int64_t line, std::string_view text) {
  return {.line = line,
          .text = std::string(text),
          .targets = TargetsOf(text),
          .returns = text.starts_with("return "),
          .is_tail = text.starts_with(')'),
          .is_open = std::ranges::count(text, '(') > std::ranges::count(text, ')'),
          .is_generated = IsGenerated(text),
          .operands = SumOperands(text),
          .terms = SumTerms(text),
          .scaled_terms = ScaledTerms(text),
          .receiver = ReceiverOf(text),
          .joins = JoinedList(text),
          .appends_to = AppendedList(text),
          .stores_in = ItemOwner(text),
          .is_comprehension = IsComprehension(text),
          .callee = std::string(CalleeOf(text)),
          .passes = std::string(FirstArgument(text)),
          .own_call = std::string(OwnCall(ValueOf(text))),
          .added_call = std::string(AddedOwnCall(text)),
          .function = std::string(OutermostFunction(text)),
          .module_calls = CountModuleCalls(text)};
}

std::string WithFloat32(std::string_view line) {
  constexpr std::string_view kShort = "torch.float";
  std::string text(line);
  for (size_t at = text.find(kShort); at != text.npos; at = text.find(kShort, at)) {
    at += kShort.size();
    const bool goes_on =
        at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    if (!goes_on) text.insert(at, "32");
  }
  return text;
}

bool SourceStatement::Mentions(std::string_view word) const {
  return text.find(word) != std::string::npos;
}

bool SourceStatement::MayPassOn(std::string_view name) const {
  const std::string_view value = ValueOf(BodyOf(text));
  return LeavesCallOpen(value) || FindWord(value, name) != value.npos;
}

std::string SourceStatement::ArgumentTo(std::string_view module) const {
  std::string called(ChildOf(module));
  if (is_put_back) return called == own_call ? argument : "";
  const bool is_numbered = std::isdigit(static_cast<unsigned char>(called[0])) != 0;
  if (is_numbered) called = "module";
  called += '(';
  const size_t call = text.find(called);
  if (call == std::string::npos) return is_numbered ? OnlyArgument(text) : "";
  const std::string_view rest = std::string_view(text).substr(call + called.size());
  const std::string_view name = rest.substr(0, rest.find_first_of(",)"));
  return IsIdentifier(name) ? std::string(name) : "";
}

StatementId SourceLines::Read(int64_t line, std::string_view text, std::string_view file) {
  const auto next = static_cast<StatementId>(statements_.size());
  const auto [found, is_new] = ids_.try_emplace({line, std::string(text)}, next);
  if (is_new) {
    statements_.push_back(ReadStatement(line, text));
    statements_.back().file = file;
  }
  return found->second;
}

StatementId SourceLines::PutBack(SourceStatement statement) {
  statement.is_put_back = true;
  statements_.push_back(std::move(statement));
  return static_cast<StatementId>(statements_.size()) - 1;
}

StatementId SourceLines::PutBeside(StatementId statement, std::vector<std::string> targets) {
  return PutBack({.line = At(statement).line, .targets = std::move(targets)});
}

bool SourceLines::AreSame(StatementId a, StatementId b) const {
  if (a == b) return true;
  if (a == kNoStatement || b == kNoStatement) return false;
  return At(a).line == At(b).line && At(a).is_put_back == At(b).is_put_back;
}

}  // namespace onnxfit

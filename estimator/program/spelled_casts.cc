#include "estimator/program/spelled_casts.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "estimator/base/text.h"
#include "estimator/program/identifiers.h"

namespace onnxfit {
namespace {

struct CastMethod {
  std::string_view name;
  std::string_view type;  // "" of what is told by an argument
};
constexpr CastMethod kCastMethods[] = {{"to", ""},
                                       {"type", ""},
                                       {"type_as", ""},
                                       {"float", "torch.float32"},
                                       {"half", "torch.float16"},
                                       {"bfloat16", "torch.bfloat16"},
                                       {"double", "torch.float64"}};

// Of a call whose bracket is open before `text`.
struct Arguments {
  std::vector<std::string_view> all;
  std::string_view behind;  // what the line has behind them
  bool is_closed = false;   // or they go on in lines below
};

Arguments ArgumentsIn(std::string_view text) {
  Arguments arguments;
  int depth = 0;
  size_t begin = 0;
  size_t at = 0;
  for (; at < text.size() && depth >= 0; ++at) {
    depth += std::string_view("([{").find(text[at]) != text.npos ? 1 : 0;
    depth -= std::string_view(")]}").find(text[at]) != text.npos ? 1 : 0;
    const bool ends = depth < 0 || (depth == 0 && text[at] == ',');
    if (!ends) continue;
    arguments.all.push_back(Trimmed(text.substr(begin, at - begin)));
    begin = at + 1;
  }
  arguments.is_closed = depth < 0;
  if (depth >= 0) arguments.all.push_back(Trimmed(text.substr(std::min(begin, at))));
  arguments.behind = Trimmed(text.substr(at));
  return arguments;
}

// What of to's arguments is a type: "y.dtype" of "device, y.dtype" and of "dtype=y.dtype".
std::string_view TypeAmong(const std::vector<std::string_view>& arguments) {
  constexpr std::string_view kNamed = "dtype=";
  for (std::string_view argument : arguments) {
    if (argument.starts_with(kNamed)) return argument.substr(kNamed.size());
    const bool is_other =
        argument.find_first_of("='\"") != argument.npos || argument.find("device") != argument.npos;
    if (!is_other) return argument;
  }
  return "";
}

// "self.w" of "y = x * self.w" before a method's dot.
std::string_view ReceiverBefore(std::string_view line) {
  size_t begin = line.size();
  while (begin > 0 && (IsPartOfIdentifier(line[begin - 1]) || line[begin - 1] == '.')) --begin;
  const std::string_view name = line.substr(begin);
  const bool is_name = !name.empty() && !name.starts_with('.') &&
                       std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  return is_name ? name : "";
}

// Where the bracket that ends `line` is opened; npos where it is not.
size_t OpeningOfLast(std::string_view line) {
  int depth = 0;
  for (size_t at = line.size(); at-- > 0;) {
    depth += std::string_view(")]}").find(line[at]) != line.npos ? 1 : 0;
    depth -= std::string_view("([{").find(line[at]) != line.npos ? 1 : 0;
    if (depth == 0) return at;
  }
  return line.npos;
}

// Where "F.norm(q, dim=-1)[0]" begins, which stands before a method's dot.
size_t BeginOfOperand(std::string_view line) {
  size_t begin = line.size();
  while (begin > 0) {
    const char c = line[begin - 1];
    if (c == ')' || c == ']') {
      const size_t open = OpeningOfLast(line.substr(0, begin));
      if (open == line.npos) return begin;
      begin = open;
    } else if (IsPartOfIdentifier(c) || c == '.') {
      --begin;
    } else {
      break;
    }
  }
  return begin;
}

// Whether `before`, the line in front of a value, returns or assigns that.
bool EndsBeforeValue(std::string_view before) {
  before = Trimmed(before);
  if (before == "return") return true;
  return before.ends_with('=') && before.find_first_of("([{=") == before.size() - 1;
}

}  // namespace

std::vector<SpelledCast> SpelledCastsOf(std::string_view line) {
  std::vector<SpelledCast> casts;
  for (size_t dot = line.find('.'); dot != line.npos; dot = line.find('.', dot + 1)) {
    const std::string_view rest = line.substr(dot + 1);
    const size_t end =
        static_cast<size_t>(std::ranges::find_if_not(rest, IsPartOfIdentifier) - rest.begin());
    const auto method = std::ranges::find(kCastMethods, rest.substr(0, end), &CastMethod::name);
    if (method == std::end(kCastMethods) || !rest.substr(end).starts_with('(')) continue;
    const Arguments arguments = ArgumentsIn(rest.substr(end + 1));
    const std::string_view type = method->type.empty() ? TypeAmong(arguments.all) : method->type;
    if (type.empty()) continue;
    const size_t begin = BeginOfOperand(line.substr(0, dot));
    casts.push_back({.method = std::string(method->name),
                     .receiver = std::string(ReceiverBefore(line.substr(0, dot))),
                     .type = std::string(type),
                     .operand = std::string(line.substr(begin, dot - begin)),
                     .is_whole = arguments.is_closed && arguments.behind.empty() &&
                                 EndsBeforeValue(line.substr(0, begin))});
  }
  return casts;
}

std::string_view TypedTensor(std::string_view type) {
  constexpr std::string_view kType = ".dtype";
  if (!type.ends_with(kType)) return "";
  type.remove_suffix(kType.size());
  return type;
}

}  // namespace onnxfit

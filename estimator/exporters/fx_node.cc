#include <algorithm>
#include <charconv>
#include <iterator>

#include "estimator/exporters/exporter_metadata.h"

namespace onnxfit {
namespace {

constexpr int kMaxNesting = 32;

// Reads the text from its front.  Once something is not as expected, `failed`.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool failed() const { return failed_; }

  // Goes behind the next `mark`; fails where there is none.  Returns what was before it.
  std::string_view Until(std::string_view mark) {
    const size_t at = rest_.find(mark);
    if (at == std::string_view::npos) return Fail();
    const std::string_view before = rest_.substr(0, at);
    rest_.remove_prefix(at + mark.size());
    return before;
  }

  FxArgument Argument(int depth = 0) {
    SkipSpace();
    if (rest_.empty() || depth > kMaxNesting) {
      Fail();
      return {};
    }
    switch (rest_[0]) {
      case '[':
        return {.kind = FxArgument::Kind::kList, .items = List(']', depth)};
      case '(':
        return {.kind = FxArgument::Kind::kList, .items = List(')', depth)};
      case '%':
        rest_.remove_prefix(1);
        return {.kind = FxArgument::Kind::kReference, .text = Word()};
      case '\'':
        rest_.remove_prefix(1);
        return {.kind = FxArgument::Kind::kWord, .text = Until("'")};
      default:
        return NumberOrWord();
    }
  }

  // The items after an opening bracket, up to `close`.
  std::vector<FxArgument> List(char close, int depth) {
    std::vector<FxArgument> items;
    rest_.remove_prefix(1);
    while (!failed_ && !Takes(close)) {
      items.push_back(Argument(depth + 1));
      SkipComma();
    }
    return items;
  }

  // {name: value, …}
  std::vector<std::pair<std::string_view, FxArgument>> Named() {
    std::vector<std::pair<std::string_view, FxArgument>> named;
    rest_.remove_prefix(rest_.starts_with('{') ? 1 : 0);
    while (!failed_ && !Takes('}')) {
      SkipSpace();
      const std::string_view name = Until(":");
      named.emplace_back(name, Argument());
      SkipComma();
    }
    return named;
  }

 private:
  std::string_view Fail() {
    failed_ = true;
    return {};
  }

  void SkipSpace() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }

  void SkipComma() {
    SkipSpace();
    if (rest_.starts_with(',')) rest_.remove_prefix(1);
  }

  bool Takes(char mark) {
    SkipSpace();
    if (rest_.empty()) Fail();
    if (!rest_.starts_with(mark)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view Word() {
    const std::string_view word = rest_.substr(0, rest_.find_first_of(",()[]{}: "));
    if (word.empty()) return Fail();
    rest_.remove_prefix(word.size());
    return word;
  }

  FxArgument NumberOrWord() {
    FxArgument argument = {.kind = FxArgument::Kind::kWord, .text = Word()};
    const std::string_view text = argument.text;
    const char* end = text.data() + text.size();
    const auto whole = std::from_chars(text.data(), end, argument.number);
    double real = 0;
    const auto any = std::from_chars(text.data(), end, real);
    if (any.ec == std::errc() && any.ptr == end) argument.kind = FxArgument::Kind::kNumber;
    if (whole.ptr != end) argument.number = 0;
    return argument;
  }

  std::string_view rest_;
  bool failed_ = false;
};

std::string_view WithoutPrefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

void AddReferences(const FxArgument& argument, std::vector<std::string_view>& names) {
  if (argument.kind == FxArgument::Kind::kReference) names.push_back(argument.text);
  for (const FxArgument& item : argument.items) AddReferences(item, names);
}

}  // namespace

std::optional<FxNode> ParseFxNode(std::string_view text) {
  if (!text.starts_with('%')) return std::nullopt;
  FxNode node;
  Reader reader(text.substr(1));
  node.name = reader.Until(" : ");
  reader.Until("[target=");
  node.target = WithoutPrefix(reader.Until("](args = "), "torch.ops.");
  if (reader.failed()) return std::nullopt;
  node.arguments = reader.Argument().items;
  reader.Until("kwargs = ");
  if (reader.failed()) return std::nullopt;
  node.named = reader.Named();
  if (reader.failed()) return std::nullopt;
  return node;
}

bool FillsTensor(std::string_view target) {
  constexpr std::string_view kFills[] = {"aten.zeros",     "aten.ones",     "aten.full",
                                         "aten.new_zeros", "aten.new_ones", "aten.new_full"};
  return std::any_of(std::begin(kFills), std::end(kFills),
                     [&](std::string_view fill) { return target.starts_with(fill); });
}

std::vector<std::string_view> References(const FxNode& node) {
  std::vector<std::string_view> names;
  for (const FxArgument& argument : node.arguments) AddReferences(argument, names);
  for (const auto& [name, argument] : node.named) AddReferences(argument, names);
  return names;
}

}  // namespace onnxfit

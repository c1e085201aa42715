#include "estimator/exporters/node_patterns.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr std::string_view kNameEnds = "(,) ;";

bool IsLetter(std::string_view token) {
  return token.size() == 1 && token[0] >= 'a' && token[0] <= 'z';
}
bool IsOperator(std::string_view token) { return token[0] >= 'A' && token[0] <= 'Z'; }
size_t PlaceOf(char letter) { return static_cast<size_t>(letter - 'a'); }

// Reads a pattern from its left to its right, beside what it is to be of a graph.
class Matcher {
 public:
  Matcher(const BoundGraph& bound, std::string_view text) : bound_(bound) {
    found_.letters.fill(kNoValue);
    for (size_t end = text.find(';'); end != std::string_view::npos; end = text.find(';')) {
      definitions_[PlaceOf(text[0])] = text.substr(4, end - 4);  // behind "a = "
      text.remove_prefix(end + 2);
    }
    expression_ = text;
  }

  std::optional<NodePattern::Match> Find(NodeId last) {
    if (!Matches(expression_, bound_.At(last).outputs[0])) return std::nullopt;
    std::ranges::sort(found_.nodes);
    const auto repeated = std::unique(found_.nodes.begin(), found_.nodes.end());
    found_.nodes.erase(repeated, found_.nodes.end());
    return IsPrivate(last) ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  // Whether `value` is what the beginning of `text` says, which it takes away.
  bool Matches(std::string_view& text, ValueId value) {
    const size_t end = std::min(text.find_first_of(kNameEnds), text.size());
    const std::string_view token = text.substr(0, end);
    text.remove_prefix(end);
    if (IsOperator(token)) return MatchesNode(token, text, value);
    if (IsLetter(token)) return MatchesLetter(token[0], value);
    return token == "_" || MatchesNumber(token, value);
  }

  bool MatchesLetter(char letter, ValueId value) {
    ValueId& known = found_.letters[PlaceOf(letter)];
    if (known != kNoValue || value == kNoValue) return known == value;
    known = value;
    std::string_view definition = definitions_[PlaceOf(letter)];
    return definition.empty() || Matches(definition, value);
  }

  bool MatchesNumber(std::string_view token, ValueId value) const {
    if (value == kNoValue || !bound_.IsNumber(value)) return false;
    const auto& known = bound_.shapes().known_scalar[Index(value)];
    if (token == "#") return known.has_value();
    const double number = std::stod(std::string(token));
    if (known.has_value())
      return std::abs(*known - number) <= 1e-6 * std::max(std::abs(number), 1e-6);
    const KnownTensor* integers = bound_.Known(value);
    return integers != nullptr && static_cast<double>(integers->elements()[0]) == number;
  }

  bool MatchesNode(std::string_view op, std::string_view& text, ValueId value) {
    const ValueId plain = WithoutCasts(value);
    if (op == "Same" && plain == value) return false;
    if (op == "Same") return MatchesArguments({plain}, text);
    const NodeId node = bound_.Maker(plain, op == "Whole" ? "Cast" : op);
    if (node == kNoNode || (op == "Whole" && IsFloat(bound_.TypeOf(plain).dtype))) return false;
    // What is known of sizes needs no call.
    if (bound_.Known(plain) == nullptr) found_.nodes.push_back(node);
    return MatchesArguments(bound_.At(node).inputs, text);
  }

  bool MatchesArguments(const std::vector<ValueId>& inputs, std::string_view& text) {
    for (size_t i = 0; text[0] != ')'; ++i) {
      text.remove_prefix(i == 0 ? 1 : 2);  // "(" or ", "
      if (i >= inputs.size() || !Matches(text, inputs[i])) return false;
    }
    text.remove_prefix(1);
    return true;
  }

  // Behind casts that do nothing, which are among the nodes then.
  ValueId WithoutCasts(ValueId value) {
    NodeId cast = bound_.Maker(value, "Cast");
    while (cast != kNoNode && bound_.TypeOf(bound_.At(cast).inputs[0]) == bound_.TypeOf(value)) {
      found_.nodes.push_back(cast);
      value = bound_.At(cast).inputs[0];
      cast = bound_.Maker(value, "Cast");
    }
    return value;
  }

  bool IsPrivate(NodeId last) const {
    return std::ranges::all_of(found_.nodes, [&](NodeId node) {
      if (node == last) return true;
      const ValueId result = bound_.At(node).outputs[0];
      return !bound_.graph().values[Index(result)].is_output &&
             std::ranges::all_of(bound_.ReadersOf(result), [&](NodeId reader) {
               return std::ranges::binary_search(found_.nodes, reader);
             });
    });
  }

  const BoundGraph& bound_;
  std::string_view expression_;
  std::array<std::string_view, 26> definitions_ = {};
  NodePattern::Match found_;
};

}  // namespace

std::string_view NodePattern::LastOperator() const {
  const size_t behind = text_.rfind("; ");
  const std::string_view last = behind == std::string_view::npos ? text_ : text_.substr(behind + 2);
  return last.substr(0, last.find('('));
}

std::optional<NodePattern::Match> NodePattern::Find(const BoundGraph& bound, NodeId last) const {
  return Matcher(bound, text_).Find(last);
}

}  // namespace onnxfit

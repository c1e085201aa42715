#include "estimator/base/expression.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

namespace onnxfit {
namespace {

// A tree is no deeper than both together.
constexpr int kMaxNesting = 128;
constexpr int kMaxOperators = 1000;

// Operators are functions by sympy's names: 2*s is Mul(2, s).
struct Expression {
  enum class Form : uint8_t { kNumber, kSymbol, kText, kFunction };
  Form form = Form::kNumber;
  int64_t number = 0;
  std::string_view name = {};  // of a symbol or a function; the text
  std::vector<Expression> items = {};
};
using Form = Expression::Form;
using Parsed = std::optional<Expression>;

Expression NumberOf(int64_t number) { return {.form = Form::kNumber, .number = number}; }

Expression Apply(std::string_view name, std::vector<Expression> items) {
  return {.form = Form::kFunction, .name = name, .items = std::move(items)};
}

Expression Negative(Expression expression) {
  if (expression.form == Form::kNumber && expression.number > INT64_MIN) {
    return NumberOf(-expression.number);
  }
  return Apply("Mul", {NumberOf(-1), std::move(expression)});
}

// --- Reading -------------------------------------------------------------------

// Python's grammar, as far as sizes need it: sums, products, powers, calls.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : rest_(text) {}

  Parsed Whole() {
    Parsed whole = Sum();
    SkipBlanks();
    return rest_.empty() ? whole : std::nullopt;
  }

 private:
  Parsed Sum() {
    if (++nesting_ > kMaxNesting) return std::nullopt;
    Parsed left = Product();
    while (left) {
      const bool minus = Take("-");
      if (!minus && !Take("+")) break;
      Parsed right = Product();
      if (!right || ++operators_ > kMaxOperators) return std::nullopt;
      if (minus) right = Negative(*std::move(right));
      left = Joined("Add", *std::move(left), *std::move(right));
    }
    --nesting_;
    return left;
  }

  Parsed Product() {
    Parsed left = Signed();
    while (left) {
      const std::string_view name = TakeOperator();
      if (name.empty()) break;
      Parsed right = Signed();
      if (!right || ++operators_ > kMaxOperators) return std::nullopt;
      left = Joined(name, *std::move(left), *std::move(right));
    }
    return left;
  }

  Parsed Signed() {
    if (++nesting_ > kMaxNesting) return std::nullopt;
    const bool minus = Take("-");
    Parsed value = minus ? Signed() : Power();
    --nesting_;
    return value && minus ? Parsed(Negative(*std::move(value))) : value;
  }

  Parsed Power() {
    Parsed base = Atom();
    if (!base || !Take("**")) return base;
    Parsed exponent = Signed();
    if (!exponent) return std::nullopt;
    return Apply("Pow", {*std::move(base), *std::move(exponent)});
  }

  Parsed Atom() {
    SkipBlanks();
    if (Take("(")) {
      Parsed inner = Sum();
      return Take(")") ? inner : std::nullopt;
    }
    if (rest_.empty()) return std::nullopt;
    if (rest_[0] == '\'') return Quoted();
    if (std::isdigit(static_cast<unsigned char>(rest_[0])) != 0) return Digits();
    const std::string_view name = Word();
    if (name.empty()) return std::nullopt;
    if (!Take("(")) return Expression{.form = Form::kSymbol, .name = name};
    return Call(name);
  }

  Parsed Call(std::string_view name) {
    std::vector<Expression> items;
    while (!Take(")")) {
      if (!items.empty() && !Take(",")) return std::nullopt;
      if (SkipKeyword()) continue;
      Parsed item = Sum();
      if (!item) return std::nullopt;
      items.push_back(*std::move(item));
    }
    return Simplified(Apply(name, std::move(items)));
  }

  // srepr's leaves.
  static Parsed Simplified(Expression call) {
    if (call.items.size() != 1) return call;
    Expression& item = call.items[0];
    if (call.name == "Integer" && item.form == Form::kNumber) return std::move(item);
    if (call.name == "Symbol" && item.form == Form::kText) item.form = Form::kSymbol;
    if (call.name == "Symbol" && item.form == Form::kSymbol) return std::move(item);
    return Rounded(std::move(call));
  }

  // sympy's floor(a/b) and ceiling(a/b).
  static Expression Rounded(Expression call) {
    const bool divides = call.items[0].name == "IntTrueDiv";
    const bool is_ceiling = call.name == "ceiling" || call.name == "ceil";
    if (!divides || (call.name != "floor" && !is_ceiling)) return call;
    Expression division = std::move(call.items[0]);
    division.name = is_ceiling ? "CeilDiv" : "FloorDiv";
    return division;
  }

  // "positive=True".
  bool SkipKeyword() {
    const std::string_view before = rest_;
    if (!Word().empty() && Take("=") && !Word().empty()) return true;
    rest_ = before;
    return false;
  }

  Parsed Quoted() {
    const size_t end = rest_.find('\'', 1);
    if (end == rest_.npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return Expression{.form = Form::kText, .name = text};
  }

  Parsed Digits() {
    int64_t number = 0;
    const char* const begin = rest_.data();
    const auto [end, error] = std::from_chars(begin, begin + rest_.size(), number);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - begin));
    return NumberOf(number);
  }

  std::string_view Word() {
    SkipBlanks();
    const auto is_of_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    };
    const auto end = std::ranges::find_if_not(rest_, is_of_word);
    const auto size = static_cast<size_t>(end - rest_.begin());
    const std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }

  std::string_view TakeOperator() {
    SkipBlanks();
    if (rest_.starts_with("**")) return {};
    if (Take("*")) return "Mul";
    if (Take("//")) return "FloorDiv";
    if (Take("/")) return "IntTrueDiv";
    return Take("%") ? "Mod" : "";
  }

  bool Take(std::string_view text) {
    SkipBlanks();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  void SkipBlanks() {
    while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
  }

  // a*b*c is one product.
  static Expression Joined(std::string_view name, Expression left, Expression right) {
    const bool continues = left.form == Form::kFunction && left.name == name;
    if (!continues || (name != "Add" && name != "Mul")) {
      return Apply(name, {std::move(left), std::move(right)});
    }
    left.items.push_back(std::move(right));
    return left;
  }

  std::string_view rest_;
  int nesting_ = 0;
  int operators_ = 0;
};

// --- Writing -------------------------------------------------------------------

// How tight an expression holds together: a sum in a product needs parentheses.
enum class Tightness : uint8_t { kSum, kProduct, kPower, kAtom };

struct Operator {
  std::string_view name;
  std::string_view sign;
  Tightness tightness;
};
constexpr Operator kOperators[] = {{"Add", " + ", Tightness::kSum},
                                   {"Mul", "*", Tightness::kProduct},
                                   {"FloorDiv", "//", Tightness::kProduct},
                                   {"Pow", "**", Tightness::kPower},
                                   {"PowByNatural", "**", Tightness::kPower}};

const Operator* OperatorOf(const Expression& e) {
  if (e.form != Form::kFunction || e.items.size() < 2) return nullptr;
  const auto* const found = std::ranges::find(kOperators, e.name, &Operator::name);
  return found == std::end(kOperators) ? nullptr : found;
}

std::string ToText(const Expression& e);

// `item` of a chain of `in`; only the first needs no parentheses where both hold equally tight.
std::string ItemText(const Expression& item, const Operator& in, bool is_first) {
  const Operator* const inner = OperatorOf(item);
  const bool is_negative = item.form == Form::kNumber && item.number < 0;
  const Tightness tightness = inner != nullptr ? inner->tightness
                              : is_negative    ? Tightness::kSum
                                               : Tightness::kAtom;
  const bool is_chain = is_first && in.tightness != Tightness::kPower;
  const bool is_loose = tightness < in.tightness && !(is_negative && is_chain);
  const bool needs = is_loose || (tightness == in.tightness && !is_chain && !is_negative);
  return needs ? "(" + ToText(item) + ")" : ToText(item);
}

std::string ChainText(const Expression& e, const Operator& in) {
  std::string text;
  for (size_t i = 0; i < e.items.size(); ++i) {
    const std::string item = ItemText(e.items[i], in, i == 0);
    if (i > 0 && in.name == "Add" && item.starts_with('-')) {
      text += " - " + item.substr(1);
    } else {
      text += (i > 0 ? std::string(in.sign) : "") + item;
    }
  }
  const bool is_minus = in.name == "Mul" && text.starts_with("-1*");
  return is_minus ? "-" + text.substr(3) : text;
}

std::string ToText(const Expression& e) {
  if (e.form == Form::kNumber) return std::to_string(e.number);
  if (e.form == Form::kText) return "'" + std::string(e.name) + "'";
  if (e.form == Form::kSymbol) return std::string(e.name);
  if (const Operator* const in = OperatorOf(e)) return ChainText(e, *in);
  std::string text = std::string(e.name) + "(";
  for (size_t i = 0; i < e.items.size(); ++i) text += (i > 0 ? ", " : "") + ToText(e.items[i]);
  return text + ")";
}

// --- Evaluating ----------------------------------------------------------------

using Numbers = std::span<const int64_t>;
using Value = std::optional<int64_t>;

Value SumOf(Numbers numbers) {
  int64_t sum = 0;
  for (const int64_t number : numbers) {
    if (__builtin_add_overflow(sum, number, &sum)) return std::nullopt;
  }
  return sum;
}

Value ProductOf(Numbers numbers) {
  int64_t product = 1;
  for (const int64_t number : numbers) {
    if (__builtin_mul_overflow(product, number, &product)) return std::nullopt;
  }
  return product;
}

// Python's //: towards minus infinity.
Value FloorDiv(Numbers n) {
  if (n[1] == 0 || (n[0] == INT64_MIN && n[1] == -1)) return std::nullopt;
  const int64_t quotient = n[0] / n[1];
  return n[0] % n[1] != 0 && (n[0] < 0) != (n[1] < 0) ? quotient - 1 : quotient;
}

Value CeilDiv(Numbers n) {
  const Value floor = FloorDiv(n);
  return floor && n[0] % n[1] != 0 ? Value(*floor + 1) : floor;
}

Value ExactDiv(Numbers n) {
  const Value floor = FloorDiv(n);
  return floor && n[0] % n[1] == 0 ? floor : std::nullopt;
}

// Python's %: of the sign of n[1].
Value Modulo(Numbers n) {
  if (!FloorDiv(n)) return std::nullopt;
  const int64_t rest = n[0] % n[1];
  return rest != 0 && (rest < 0) != (n[1] < 0) ? rest + n[1] : rest;
}

// ModularIndexing(a, b, c) is a // b % c.
Value ModularIndexing(Numbers n) {
  const Value floor = FloorDiv(n.first(2));
  return floor ? Modulo(std::vector{*floor, n[2]}) : std::nullopt;
}

Value PowerOf(Numbers n) {
  constexpr int64_t kMaxExponent = 63;  // of 2, within int64_t
  if (n[1] < 0 || n[1] > kMaxExponent) return std::nullopt;
  return ProductOf(std::vector<int64_t>(static_cast<size_t>(n[1]), n[0]));
}

Value LeastOf(Numbers numbers) { return std::ranges::min(numbers); }
Value MostOf(Numbers numbers) { return std::ranges::max(numbers); }
Value SameAs(Numbers numbers) { return numbers[0]; }
Value IsLess(Numbers n) { return n[0] < n[1] ? 1 : 0; }
Value IsAtMost(Numbers n) { return n[0] <= n[1] ? 1 : 0; }
Value IsMore(Numbers n) { return n[0] > n[1] ? 1 : 0; }
Value IsAtLeast(Numbers n) { return n[0] >= n[1] ? 1 : 0; }
Value IsEqual(Numbers n) { return n[0] == n[1] ? 1 : 0; }
Value IsOther(Numbers n) { return n[0] != n[1] ? 1 : 0; }

// torch/utils/_sympy/functions.py, and sympy's own.
struct Function {
  std::string_view name;
  size_t least;  // arguments
  size_t most;
  Value (*value)(Numbers);
};
constexpr size_t kAny = SIZE_MAX;
constexpr Function kFunctions[] = {
    {"Add", 1, kAny, SumOf},
    {"Mul", 1, kAny, ProductOf},
    {"Min", 1, kAny, LeastOf},
    {"Max", 1, kAny, MostOf},
    {"FloorDiv", 2, 2, FloorDiv},
    {"CleanDiv", 2, 2, ExactDiv},
    {"CeilDiv", 2, 2, CeilDiv},
    {"IntTrueDiv", 2, 2, ExactDiv},
    {"Mod", 2, 2, Modulo},
    {"PythonMod", 2, 2, Modulo},
    {"Pow", 2, 2, PowerOf},
    {"PowByNatural", 2, 2, PowerOf},
    {"Identity", 1, 1, SameAs},
    {"ModularIndexing", 3, 3, ModularIndexing},
    {"StrictLessThan", 2, 2, IsLess},
    {"LessThan", 2, 2, IsAtMost},
    {"StrictGreaterThan", 2, 2, IsMore},
    {"GreaterThan", 2, 2, IsAtLeast},
    {"Equality", 2, 2, IsEqual},
    {"Unequality", 2, 2, IsOther},
};

Value ValueOf(const Expression& e, const std::map<std::string_view, int64_t>& symbols) {
  if (e.form == Form::kNumber) return e.number;
  if (e.form == Form::kText) return std::nullopt;
  if (e.form == Form::kSymbol) {
    const auto found = symbols.find(e.name);
    return found == symbols.end() ? std::nullopt : Value(found->second);
  }
  const auto* const function = std::ranges::find(kFunctions, e.name, &Function::name);
  if (function == std::end(kFunctions)) return std::nullopt;
  if (e.items.size() < function->least || e.items.size() > function->most) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Expression& item : e.items) {
    const Value number = ValueOf(item, symbols);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return function->value(numbers);
}

void CollectSymbols(const Expression& e, std::vector<std::string>& symbols) {
  const bool is_new = std::ranges::find(symbols, e.name) == symbols.end();
  if (e.form == Form::kSymbol && is_new) symbols.emplace_back(e.name);
  for (const Expression& item : e.items) CollectSymbols(item, symbols);
}

}  // namespace

std::string PlainExpression(std::string_view written) {
  const Parsed parsed = ExpressionParser(written).Whole();
  return parsed ? ToText(*parsed) : std::string(written);
}

std::optional<int64_t> Evaluate(std::string_view expression,
                                const std::map<std::string_view, int64_t>& symbols) {
  const Parsed parsed = ExpressionParser(expression).Whole();
  return parsed ? ValueOf(*parsed, symbols) : std::nullopt;
}

std::optional<std::vector<std::string>> SymbolsOf(std::string_view expression) {
  const Parsed parsed = ExpressionParser(expression).Whole();
  if (!parsed) return std::nullopt;
  std::vector<std::string> symbols;
  CollectSymbols(*parsed, symbols);
  return symbols;
}

std::optional<int64_t> SolveFor(std::string_view symbol, std::string_view expression, int64_t size,
                                std::map<std::string_view, int64_t> symbols) {
  const auto value = [&](int64_t of) {
    symbols[symbol] = of;
    return Evaluate(expression, symbols);
  };
  const std::optional<int64_t> first = value(1);
  const std::optional<int64_t> second = value(2);
  if (!first || !second || *second <= *first || size < *first) return std::nullopt;
  const int64_t solution = 1 + (size - *first) / (*second - *first);
  return value(solution) == size ? std::optional(solution) : std::nullopt;
}

}  // namespace onnxfit

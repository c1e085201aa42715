#include "estimator/base/expression.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

namespace onnxfit::expression_test {
namespace {

#define S10 "Symbol('s10', positive=True, integer=True)"

TEST_CASE("both notations become Python's") {
  struct Row {
    const char* written;
    const char* plain;
  };
  const Row rows[] = {
      {S10, "s10"},
      {"Integer(5)", "5"},
      {"Integer(-1)", "-1"},
      {"Mul(Integer(768), " S10 ")", "768*s10"},
      {"Min(Integer(768), Mul(Integer(768), " S10 "))", "Min(768, 768*s10)"},
      {"Mul(Add(" S10 ", Integer(-1)), Symbol('s1'))", "(s10 - 1)*s1"},
      {"Mul(Integer(-1), " S10 ")", "-s10"},
      {"Add(Integer(1), Mul(Integer(-1), " S10 "))", "1 - s10"},
      {"Add(FloorDiv(" S10 ", Integer(2)), Integer(1))", "s10//2 + 1"},
      {"FloorDiv(Add(" S10 ", Integer(1)), Mul(Integer(2), Symbol('s1')))", "(s10 + 1)//(2*s1)"},
      {"Mul(Integer(3), FloorDiv(" S10 ", Integer(2)))", "3*(s10//2)"},
      {"Pow(" S10 ", Integer(2))", "s10**2"},
      {"Pow(Add(" S10 ", Integer(1)), Integer(2))", "(s10 + 1)**2"},
      {"Pow(" S10 ", Integer(-1))", "s10**(-1)"},
      {"ModularIndexing(" S10 ", Integer(1), Integer(8))", "ModularIndexing(s10, 1, 8)"},
      {"s0", "s0"},
      {"128*s0", "128*s0"},
      {"2*s0*s1", "2*s0*s1"},
      {"(s0//2)", "s0//2"},
      {"((s0 - 1)//2) + 1", "(s0 - 1)//2 + 1"},
      {"8*s0//3", "8*s0//3"},
      {"8*(s0//3)", "8*(s0//3)"},
      {"s0**2 - 1", "s0**2 - 1"},
      {"Max(1, u0)", "Max(1, u0)"},
      {"Mod(s0, 8)", "Mod(s0, 8)"},
      // Neither.
      {"", ""},
      {"Eq(s0, 1) if x else y", "Eq(s0, 1) if x else y"},
      {"s0 +", "s0 +"},
      {"f(", "f("},
      {"s0 s1", "s0 s1"},
      {"99999999999999999999", "99999999999999999999"},
      {"Symbol('s", "Symbol('s"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.written);
    CHECK(PlainExpression(row.written) == row.plain);
    CHECK(PlainExpression(row.plain) == row.plain);
  }
}

std::string ValueText(const char* expression) {
  const std::map<std::string_view, int64_t> symbols = {{"s0", 7}, {"s1", -7}, {"big", INT64_MAX}};
  const std::optional<int64_t> value = Evaluate(expression, symbols);
  return value ? std::to_string(*value) : "none";
}

TEST_CASE("what an expression comes to") {
  struct Row {
    const char* expression;
    const char* value;
  };
  const Row rows[] = {
      {"s0", "7"},
      {"128*s0", "896"},
      {"2 + 3*s0 - 1", "22"},
      {"floor(s0/2)", "3"},
      {"ceiling(s0/2) + floor((s0 + 1)/2)", "8"},
      {"s0//2", "3"},
      {"s1//2", "-4"},
      {"s0 % 4", "3"},
      {"s1 % 4", "1"},
      {"Mod(s0, -4)", "-1"},
      {"CeilDiv(s0, 2)", "4"},
      {"CeilDiv(s1, 2)", "-3"},
      {"CeilDiv(s0, 7)", "1"},
      {"CleanDiv(s0, 7)", "1"},
      {"CleanDiv(s0, 2)", "none"},
      {"s0**2", "49"},
      {"s0**(-1)", "none"},
      {"2**62", "4611686018427387904"},
      {"2**63", "none"},
      {"Min(s0, 3, s1)", "-7"},
      {"Max(s0, 3)", "7"},
      {"ModularIndexing(s0, 2, 2)", "1"},
      {"Identity(s0)", "7"},
      {"StrictLessThan(s0, 7)", "0"},
      {"LessThan(s0, 7)", "1"},
      {"StrictGreaterThan(s0, 6)", "1"},
      {"GreaterThan(s0, 8)", "0"},
      {"Equality(s0, 7)", "1"},
      {"Unequality(s0, 7)", "0"},
      {"Mul(Integer(2), Symbol('s0', positive=True))", "14"},
      {"-s0", "-7"},
      {"big + 1", "none"},
      {"big*2", "none"},
      {"s0//0", "none"},
      {"s0 % 0", "none"},
      {"(-big - 1)//(-1)", "none"},
      {"(-big - 1) % (-1)", "none"},
      {"s2", "none"},
      {"Where(s0, 1, 2)", "none"},
      {"FloorDiv(s0)", "none"},
      {"Max()", "none"},
      {"", "none"},
      {"'s0'", "none"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.expression);
    CHECK(ValueText(row.expression) == row.value);
  }
}

TEST_CASE("an expression has symbols, and can be solved for one") {
  CHECK(SymbolsOf("past + 2*seq - past") == std::vector<std::string>{"past", "seq"});
  CHECK(SymbolsOf("7") == std::vector<std::string>{});
  CHECK(!SymbolsOf("a b").has_value());
  CHECK(!SymbolsOf("past +").has_value());
  CHECK(SolveFor("past", "past + 1", 2048) == 2047);
  CHECK(SolveFor("heads", "N*heads", 24, {{"N", 2}}) == 12);
  CHECK(!SolveFor("s", "32*s", 40).has_value());
  CHECK(!SolveFor("s", "s + t", 40).has_value());
}

TEST_CASE("an expression without end takes no stack") {
  const std::string deep(100'000, '(');
  CHECK(PlainExpression(deep) == deep);
  std::string minus(100'000, '-');
  minus += "1";
  CHECK(PlainExpression(minus) == minus);
  std::string calls;
  for (int i = 0; i < 100'000; ++i) calls += "f(";
  CHECK(PlainExpression(calls) == calls);
  for (const char* sign : {"//2", "**2", "*2//3", " + 2"}) {
    std::string chain = "s0";
    for (int i = 0; i < 100'000; ++i) chain += sign;
    CAPTURE(sign);
    CHECK(PlainExpression(chain) == chain);
  }
}

}  // namespace
}  // namespace onnxfit::expression_test

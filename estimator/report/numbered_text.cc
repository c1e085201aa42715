#include "estimator/report/numbered_text.h"

#include <algorithm>
#include <cstdlib>

namespace onnxfit {
namespace {

constexpr char kNumberMark = '\1';  // no sentence has them
constexpr char kSizeMark = '\2';
constexpr std::string_view kDecimalDigits = "0123456789";
constexpr std::string_view kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};

bool EndsNumber(std::string_view rest) {
  return rest.empty() || std::string_view(" ,.;:)").find(rest[0]) != std::string_view::npos;
}

// How many letters of `text` are a number that stands alone; 0 where it does not begin with one.
size_t NumberLength(std::string_view text) {
  size_t length = std::min(text.find_first_not_of(kDecimalDigits), text.size());
  if (length == 0) return 0;
  const std::string_view rest = text.substr(length);
  if (rest.size() > 1 && rest[0] == '.' && kDecimalDigits.find(rest[1]) != std::string_view::npos) {
    length += 1 + std::min(rest.substr(1).find_first_not_of(kDecimalDigits), rest.size() - 1);
  }
  return EndsNumber(text.substr(length)) ? length : 0;
}

// The unit that `rest` begins with, "" for none.
std::string_view UnitOf(std::string_view rest) {
  for (const std::string_view unit : kUnits) {
    if (rest.starts_with(unit) && EndsNumber(rest.substr(unit.size()))) return unit;
  }
  return "";
}

double ValueOf(const std::string& number) {
  char* end = nullptr;
  double value = std::strtod(number.c_str(), &end);
  for (const std::string_view unit : kUnits) {
    if (end == unit) return value;
    if (*end != '\0') value *= 1024;
  }
  return std::strtod(number.c_str(), nullptr);
}

std::string RangeOf(std::string low, const std::string& high, std::string_view dash) {
  if (low == high) return high;
  const std::string unit = high.substr(std::min(high.find(' '), high.size()));
  if (!unit.empty() && low.ends_with(unit)) low.resize(low.size() - unit.size());
  return low + std::string(dash) + high;
}

}  // namespace

NumberedText TakeApart(std::string_view text) {
  NumberedText apart;
  bool may_begin = true;  // after a space or a parenthesis
  while (!text.empty()) {
    const size_t digits = may_begin ? NumberLength(text) : 0;
    const std::string_view unit = digits > 0 ? UnitOf(text.substr(digits)) : "";
    if (digits > 0) {
      apart.numbers.emplace_back(text.substr(0, digits + unit.size()));
      apart.words += unit.empty() ? kNumberMark : kSizeMark;
    } else {
      apart.words += text[0];
    }
    may_begin = text[0] == ' ' || text[0] == '(';
    text.remove_prefix(std::max<size_t>(1, digits + unit.size()));
  }
  return apart;
}

std::string PutTogether(std::string_view words, const std::vector<std::string>& low,
                        const std::vector<std::string>& high, std::string_view dash) {
  std::string text;
  size_t number = 0;
  for (const char c : words) {
    if ((c == kNumberMark || c == kSizeMark) && number < low.size()) {
      text += RangeOf(low[number], high[number], dash);
      ++number;
    } else {
      text += c;
    }
  }
  return text;
}

void Widen(const std::vector<std::string>& numbers, std::vector<std::string>& low,
           std::vector<std::string>& high) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (IsLess(numbers[i], low[i])) low[i] = numbers[i];
    if (IsLess(high[i], numbers[i])) high[i] = numbers[i];
  }
}

Warnings Merged(const Warnings& sentences, std::string_view dash) {
  struct Like {
    std::string code;
    NumberedText low;
    std::vector<std::string> high;
  };
  std::vector<Like> alike;
  for (const auto& [code, text] : sentences) {
    const NumberedText apart = TakeApart(text);
    const auto found = std::ranges::find_if(alike, [&, &of = code](const Like& like) {
      return like.code == of && like.low.words == apart.words;
    });
    if (found == alike.end()) {
      alike.push_back({code, apart, apart.numbers});
    } else {
      Widen(apart.numbers, found->low.numbers, found->high);
    }
  }
  Warnings merged;
  for (const Like& like : alike) {
    merged.push_back({like.code, PutTogether(like.low.words, like.low.numbers, like.high, dash)});
  }
  return merged;
}

bool IsLess(const std::string& a, const std::string& b) { return ValueOf(a) < ValueOf(b); }

}  // namespace onnxfit

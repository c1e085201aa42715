#include "estimator/oom/printed_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "estimator/base/bytes.h"
#include "estimator/oom/log_lines.h"

namespace onnxfit {
namespace {

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr Unit kUnits[] = {{"bytes", 1},         {"KiB", kKiB},       {"MiB", kMiB}, {"GiB", kGiB},
                           {"TiB", 1024 * kGiB}, {"KB", kKiB},        {"kB", kKiB},  {"MB", kMiB},
                           {"GB", kGiB},         {"TB", 1024 * kGiB}, {"B", 1}};

// Smaller ones are lost in whole bytes.
constexpr int64_t kLeastError = 2;

// "GiB", though the message may say GB.
std::string_view NameOfUnit(int64_t bytes) {
  const auto unit = std::ranges::find(kUnits, bytes, &Unit::bytes);
  return unit->name;
}

std::string InUnit(int64_t bytes, const PrintedBytes& printed) {
  return fmt::format("{:.{}f}", static_cast<double>(bytes) / static_cast<double>(printed.unit),
                     printed.places);
}

size_t DigitsAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return end - at;
}

// The end of "25,600,000"; 0 where there are no groups of three.
size_t EndOfGroups(std::string_view text) {
  const size_t first = DigitsAt(text, 0);
  if (first == 0 || first > 3 || text[0] == '0') return 0;
  size_t end = first;
  while (end < text.size() && text[end] == ',' && DigitsAt(text, end + 1) == 3) end += 4;
  return end > first ? end : 0;
}

// The end of "1,5" in front of a unit; 0 for any other comma.
size_t EndOfDecimalComma(std::string_view text) {
  const size_t comma = DigitsAt(text, 0);
  if (comma == 0 || comma >= text.size() || text[comma] != ',') return 0;
  const size_t behind = DigitsAt(text, comma + 1);
  const size_t end = comma + 1 + behind;
  constexpr std::string_view kUnitLetters = "kKmMgGtTbB";
  const bool has_unit = end < text.size() && kUnitLetters.find(text[end]) != std::string_view::npos;
  return has_unit && (behind == 1 || behind == 2) ? end : 0;
}

}  // namespace

Decimal ReadDecimal(std::string_view text) {
  if (const size_t groups = EndOfGroups(text); groups > 0) {
    std::string digits(text.substr(0, groups));
    std::erase(digits, ',');
    const size_t commas = groups - digits.size();
    Decimal decimal = ReadDecimal(digits + std::string(text.substr(groups, 8)));
    decimal.letters += commas;
    return decimal;
  }
  if (const size_t comma = EndOfDecimalComma(text); comma > 0) {
    std::string digits(text.substr(0, comma));
    digits[digits.find(',')] = '.';
    return ReadDecimal(digits);
  }
  Decimal decimal;
  size_t end = DigitsAt(text, 0);
  if (end + 1 < text.size() && text[end] == '.' && IsDigit(text[end + 1])) {
    const size_t point = end++;
    while (end < text.size() && IsDigit(text[end])) ++end;
    decimal.places = static_cast<int>(std::min<size_t>(end - point - 1, 18));
  }
  const char* last = text.data() + end;
  std::from_chars(text.data(), last, decimal.value);
  const bool fits = std::from_chars(text.data(), last, decimal.whole).ec == std::errc();
  if (!fits) decimal.whole = kMostBytes;
  decimal.letters = end;
  return decimal;
}

PrintedBytes SizeOf(const Decimal& decimal, int64_t unit) {
  if (unit == 1 && decimal.places == 0) return {.bytes = std::min(decimal.whole, kMostBytes)};
  const double bytes = decimal.value * static_cast<double>(unit);
  const double half = static_cast<double>(unit) / 2 / std::pow(10.0, decimal.places);
  if (!(bytes < static_cast<double>(kMostBytes))) return {.bytes = kMostBytes};
  return {.bytes = std::llround(bytes),
          .error =
              decimal.value == 0 && decimal.places == 0 ? 0 : static_cast<int64_t>(std::ceil(half)),
          .unit = unit,
          .places = decimal.places};
}

bool PrintedBytes::Prints(int64_t size) const {
  if (unit == 1) return std::abs(size - bytes) <= error;
  return InUnit(size, *this) == InUnit(bytes, *this);
}

std::string ToString(const PrintedBytes& printed) {
  const bool is_long = printed.places == 0 && printed.bytes / printed.unit >= 1024;  // "3956 MB"
  if (printed.unit == 1 || printed.error < kLeastError || is_long) {
    return FormatBytes(printed.bytes);
  }
  return fmt::format("{} {}", InUnit(printed.bytes, printed), NameOfUnit(printed.unit));
}

std::optional<ReadSizeResult> ReadSize(std::string_view text) {
  const Decimal decimal = ReadDecimal(text);
  if (decimal.letters == 0) return std::nullopt;
  std::string_view rest = text.substr(decimal.letters);
  if (rest.starts_with('.')) rest.remove_prefix(1);  // NumPy's "262. MiB"
  for (const Unit& unit : kUnits) {
    if (!rest.starts_with(unit.name)) continue;
    const auto letters = static_cast<size_t>(rest.data() - text.data()) + unit.name.size();
    return ReadSizeResult{SizeOf(decimal, unit.bytes), letters, true};
  }
  return ReadSizeResult{SizeOf(decimal, 1), decimal.letters, false};
}

}  // namespace onnxfit

#include "estimator/base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

#include "estimator/base/error.h"

namespace onnxfit {
namespace {

struct Unit {
  std::string_view name;  // lower case
  int64_t bytes;
};

// As cards are sold and tools print: "8 GB" counts in thousands, "8 GiB" and a bare "8G" (as
// docker and Slurm have it) in 1024.
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", kKiB},
    {"kib", kKiB},
    {"kb", 1'000},
    {"m", kMiB},
    {"mib", kMiB},
    {"mb", 1'000'000},
    {"g", kGiB},
    {"gib", kGiB},
    {"gb", 1'000'000'000},
    {"t", 1024 * kGiB},
    {"tib", 1024 * kGiB},
    {"tb", 1'000'000'000'000},
};

std::string LowerWithoutSpaces(std::string_view text) {
  std::string lower;
  for (const char c : text) {
    if (c != ' ') lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return lower;
}

}  // namespace

void RefuseOverflow() {
  throw Error(
      {.text = "sizes above 2^63 bytes cannot be counted", .hint = "a smaller batch or dimension"});
}

int64_t CheckedAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) RefuseOverflow();
  return sum;
}

int64_t CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) RefuseOverflow();
  return product;
}

int64_t RoundUp(int64_t bytes, int64_t step) { return CheckedMul(DivideUp(bytes, step), step); }

std::string PyTorchBytes(int64_t bytes) {
  const auto in = [bytes](int64_t unit, std::string_view name) {
    return fmt::format("{:.2f} {}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  };
  if (bytes <= kKiB) return fmt::format("{} bytes", bytes);
  if (bytes <= kMiB) return in(kKiB, "KiB");
  return bytes <= kGiB ? in(kMiB, "MiB") : in(kGiB, "GiB");
}

std::string FormatBytes(int64_t bytes) {
  if (bytes < 0) return fmt::format("-{}", FormatBytes(-bytes));
  if (bytes < kKiB) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 6> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : 1, kNames[unit]);
}

int64_t ParseBytes(std::string_view text, std::string_view flag) {
  const std::string lower = LowerWithoutSpaces(text);
  const size_t end = lower.find_first_not_of("0123456789.");
  const std::string number = lower.substr(0, end);
  const std::string unit_name = end == std::string::npos ? "" : lower.substr(end);
  double value = 0;
  const auto [last, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool parsed = code == std::errc() && last == number.data() + number.size();
  for (const Unit& unit : kUnits) {
    if (!parsed || unit.name != unit_name) continue;
    const double bytes = value * static_cast<double>(unit.bytes);
    const bool lacks_unit = unit_name.empty() && bytes > 0 && bytes < kMiB;
    if (lacks_unit) break;  // 450 means MiB, and says bytes
    if (bytes < 9.2e18) return static_cast<int64_t>(std::llround(bytes));
  }
  throw Error({.where = std::string(flag),
               .text = fmt::format("expected a size, found '{}'", text),
               .hint = "8GiB or 512MiB"});
}

}  // namespace onnxfit

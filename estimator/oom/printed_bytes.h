// Sizes as messages print them, rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace onnxfit {

inline constexpr int64_t kMostBytes = int64_t{1} << 62;  // 4 EiB: more is not a size

// A size as a message prints it: the true one lies within `error` of it, half a unit of the last
// digit.  0 where a message counts bytes.
struct PrintedBytes {
  int64_t bytes = 0;
  int64_t error = 0;
  int64_t unit = 1;  // it is printed in: 2^30 for GiB
  int places = 0;    // digits behind the point

  // Whether `size` is printed so: rounded as printf does, halves to the even digit.
  bool Prints(int64_t size) const;
  bool operator==(const PrintedBytes&) const = default;
};

// With the digits of the message, "15.90 GiB"; of what counts bytes as FormatBytes says.
std::string ToString(const PrintedBytes& printed);

// "8.74 GiB", "4770354232 bytes", "2.59GiB", "0B" at the beginning of `text`.  Units are of 1024:
// also MB and GB, which is what those who print them divide by.  Without a unit: bytes.
struct ReadSizeResult {
  PrintedBytes size;
  size_t letters = 0;  // that were read
  bool has_unit = false;
};
std::optional<ReadSizeResult> ReadSize(std::string_view text);

// The decimal number at the beginning of `text`: its digits, and how many are behind the point.
// "25,600,000" has commas between thousands; "1,5 GB" one in the place of the point, in front of a
// unit.
struct Decimal {
  double value = 0;
  int64_t whole = 0;  // where there is no point
  int places = 0;
  size_t letters = 0;
};
Decimal ReadDecimal(std::string_view text);

// That many of a unit.
PrintedBytes SizeOf(const Decimal& decimal, int64_t unit);

}  // namespace onnxfit

#include "estimator/pt2/packed_text.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/base/inflate.h"

namespace onnxfit::pt2 {
namespace {

constexpr size_t kMaxTextBytes = size_t{256} << 20;

// The number that a character of base64 stands for; -1 for others.
int32_t SixBits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::optional<std::string> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int32_t six = SixBits(c);
    if (six < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(six);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

}  // namespace

std::string UnpackText(std::string_view packed, const std::string& where) {
  const std::optional<std::string> bytes = DecodeBase64(packed);
  if (!bytes) throw Error({.where = where, .text = "base64 was expected, found another text"});
  std::optional<std::string> text = Inflate(*bytes, kMaxTextBytes);
  if (!text) {
    throw Error(
        {.where = where,
         .text = "a text deflated by zlib was expected, found what is damaged or too long"});
  }
  return *std::move(text);
}

}  // namespace onnxfit::pt2

#include "estimator/base/quote.h"

#include <algorithm>
#include <cctype>

namespace onnxfit {
namespace {

constexpr size_t kPrinted = 40;

// Where `name` may be cut so that no UTF-8 sequence is.
size_t CutAt(std::string_view name) {
  size_t at = kPrinted;
  while (at > 0 && (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

std::string Quote(std::string_view name) {
  const bool cut = name.size() > kPrinted;
  std::string text = "'";
  for (const char c : name.substr(0, cut ? CutAt(name) : name.size())) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return text + (cut ? "…'" : "'");
}

std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain = "-_./:=,@%+";
  const bool is_plain = std::ranges::all_of(word, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  });
  if (is_plain && !word.empty()) return std::string(word);
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace onnxfit

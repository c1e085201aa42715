// Where phrases occur in a text, whatever its line breaks, letter case and colours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace onnxfit {

// The place behind an escape sequence that begins at `at`: "\033[31;1m", or a letter after the
// escape.  REQUIRES: text[at] is '\033'.
size_t SkipEscape(std::string_view text, size_t at);

constexpr bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr char ToLower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// One pass over the text for all phrases (Aho and Corasick, 1975): O(letters), about 1 ns each.
class PhraseSearch {
 public:
  // REQUIRES: phrases in lower case, without white space, not empty.
  explicit PhraseSearch(std::span<const std::string_view> phrases);

  // The place behind the phrase that ends first at or after `from`, and begins there or later.
  std::optional<size_t> FindEnd(std::string_view text, size_t from) const;

 private:
  using State = uint16_t;
  static constexpr size_t kBytes = 256;

  void Insert(std::string_view phrase);
  void Complete();
  State& Next(State state, unsigned char byte) { return next_[state * kBytes + byte]; }

  std::vector<State> next_;    // by state and byte
  std::vector<uint8_t> ends_;  // by state: a phrase ends here
};

}  // namespace onnxfit

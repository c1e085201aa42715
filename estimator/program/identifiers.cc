#include "estimator/program/identifiers.h"

#include <algorithm>
#include <cctype>

namespace onnxfit {

bool IsPartOfIdentifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool IsIdentifier(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, IsPartOfIdentifier);
}

size_t FindWord(std::string_view text, std::string_view word, size_t from) {
  const auto is_part = [&](size_t at) { return at < text.size() && IsPartOfIdentifier(text[at]); };
  for (size_t at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    const bool begins = at == 0 || (!is_part(at - 1) && text[at - 1] != '.');
    if (begins && !is_part(at + word.size())) return at;
  }
  return text.npos;
}

}  // namespace onnxfit

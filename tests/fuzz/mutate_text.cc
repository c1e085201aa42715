// Texts as tokens: what stands between two brackets stays together.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace onnxfit::fuzz {
namespace {

constexpr size_t kMostTokens = 200'000;
constexpr std::string_view kOpen = "([{<";
constexpr std::string_view kClose = ")]}>";

bool IsWord(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

size_t EndOfString(std::string_view text, size_t begin) {
  for (size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == text[begin] || text[at] == '\n') {
      return at + 1;
    }
  }
  return text.size();
}

size_t EndOfToken(std::string_view text, size_t begin) {
  if (text[begin] == '"') return EndOfString(text, begin);
  size_t end = begin + 1;
  while (IsWord(text[begin]) && end < text.size() && IsWord(text[end])) ++end;
  return end;
}

// Words, numbers, strings and single signs; spaces belong to what is before them.
std::vector<std::string> TokensOf(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size() && tokens.size() < kMostTokens;) {
    size_t end = EndOfToken(text, at);
    while (end < text.size() && (text[end] == ' ' || text[end] == '\n')) ++end;
    tokens.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return tokens;
}

bool Begins(const std::string& token, std::string_view signs) {
  return signs.find(token[0]) != std::string_view::npos;
}

// One behind the bracket that closes the one at `begin`, or behind the token there.
size_t EndOfGroup(const std::vector<std::string>& tokens, size_t begin) {
  int depth = 0;
  for (size_t at = begin; at < tokens.size(); ++at) {
    if (Begins(tokens[at], kOpen)) ++depth;
    if (Begins(tokens[at], kClose)) --depth;
    if (depth <= 0) return at + 1;
  }
  return tokens.size();
}

bool IsNumber(const std::string& token) {
  return std::isdigit(static_cast<unsigned char>(token[0])) != 0 || token[0] == '-';
}

// Another text in the place of `token`, of its own kind.
std::string OddToken(const std::string& token, Random& random) {
  if (IsNumber(token)) {
    return std::to_string(OddNumber(std::strtoll(token.c_str(), nullptr, 10), random)) + " ";
  }
  if (token[0] == '"') return '"' + OddText(random) + '"';
  return OddText(random) + " ";
}

using Tokens = std::vector<std::string>;

Tokens::iterator Place(Tokens& tokens, size_t at) {
  return tokens.begin() + static_cast<Tokens::difference_type>(at);
}

// A token or a whole bracket of `tokens`, and perhaps what is between it and the next comma.
Tokens AnyGroup(Tokens& tokens, Random& random) {
  const size_t begin = Below(tokens.size(), random);
  size_t end = EndOfGroup(tokens, begin);
  while (OneIn(2, random) && end < tokens.size() && !Begins(tokens[end], ",)]}>")) {
    end = EndOfGroup(tokens, end);
  }
  return {Place(tokens, begin), Place(tokens, end)};
}

void MutateTokens(Tokens& tokens, Random& random) {
  const size_t begin = Below(tokens.size(), random);
  const size_t end = EndOfGroup(tokens, begin);
  const size_t way = Below(6, random);
  if (way < 2) {
    tokens[begin] = OddToken(tokens[begin], random);
    return;
  }
  Tokens group = AnyGroup(tokens, random);
  if (way < 5) tokens.erase(Place(tokens, begin), Place(tokens, end));
  if (way == 2) return;
  if (way == 5 && OneIn(2, random)) group.emplace_back(", ");
  tokens.insert(Place(tokens, begin), group.begin(), group.end());
}

}  // namespace

std::string MutateText(std::string text, size_t most, Random& random) {
  if (text.empty() || OneIn(8, random)) return MutateBytes(std::move(text), most);
  Tokens tokens = TokensOf(text);
  for (size_t i = 1 + Below(4, random); i > 0 && !tokens.empty(); --i) {
    MutateTokens(tokens, random);
  }
  std::string changed;
  for (const std::string& token : tokens) changed += token;
  return changed.size() > most ? MutateBytes(std::move(text), most) : changed;
}

}  // namespace onnxfit::fuzz

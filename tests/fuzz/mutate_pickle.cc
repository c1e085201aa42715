// A pickle: opcodes of one byte, with numbers and texts behind them.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace onnxfit::fuzz {
namespace {

// What follows an opcode (pickletools): a number of so many bytes, and, where that is a length, as
// many letters.
struct Shape {
  char code = 0;
  size_t number = 0;
  bool is_length = false;
};
constexpr Shape kShapes[] = {
    {'\x80', 1},       {'\x95', 8},       {'K', 1},          {'M', 2},       {'J', 4},
    {'G', 8},          {'q', 1},          {'r', 4},          {'h', 1},       {'j', 4},
    {'\x8a', 1, true}, {'\x8b', 4, true}, {'\x8c', 1, true}, {'X', 4, true}, {'\x8d', 8, true},
    {'C', 1, true},    {'B', 4, true}};

Shape ShapeOf(char code) {
  const auto* shape = std::ranges::find(kShapes, code, &Shape::code);
  return shape == std::end(kShapes) ? Shape{.code = code} : *shape;
}

uint64_t NumberAt(std::string_view bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data(), bytes.size());
  return number;
}

// An opcode with all that belongs to it.
std::vector<std::string> OpcodesOf(std::string_view bytes) {
  std::vector<std::string> tokens;
  while (!bytes.empty()) {
    const Shape shape = ShapeOf(bytes[0]);
    const size_t head = std::min(1 + shape.number, bytes.size());
    const uint64_t letters = shape.is_length ? NumberAt(bytes.substr(1, head - 1)) : 0;
    const size_t size = head + std::min<uint64_t>(letters, bytes.size() - head);
    tokens.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return tokens;
}

std::string WithNumber(const std::string& token, uint64_t number) {
  std::string changed = token;
  const size_t count = std::min(ShapeOf(token[0]).number, token.size() - 1);
  std::memcpy(changed.data() + 1, &number, count);
  return changed;
}

std::string IntegerToken(int64_t number) {
  std::string token = "\x8a\x08";
  token.append(reinterpret_cast<const char*>(&number), sizeof number);
  return token;
}

std::string TextToken(std::string text) {
  text.resize(std::min<size_t>(text.size(), 255));
  return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
}

std::string Changed(const std::string& token, Random& random) {
  const Shape shape = ShapeOf(token[0]);
  const bool is_integer = token[0] == 'K' || token[0] == 'M' || token[0] == 'J';
  if (is_integer || token[0] == '\x8a') return IntegerToken(OddNumber(0, random));
  if (shape.is_length) return TextToken(OddText(random));
  return shape.number == 0 ? IntegerToken(OddNumber(0, random))
                           : WithNumber(token, static_cast<uint64_t>(OddNumber(0, random)));
}

void ChangeOne(std::vector<std::string>& tokens, Random& random) {
  const size_t at = Below(tokens.size(), random);
  const size_t other = Below(tokens.size(), random);
  switch (Below(5, random)) {
    case 0:
      tokens[at] = Changed(tokens[at], random);
      return;
    case 1:
      tokens[at] = tokens[other];
      return;
    case 2:
      std::swap(tokens[at], tokens[other]);
      return;
    case 3:
      tokens.insert(tokens.begin() + static_cast<std::ptrdiff_t>(at), tokens[other]);
      return;
    default:
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace

std::string MutatePickle(const std::string& bytes, size_t most, Random& random) {
  std::vector<std::string> tokens = OpcodesOf(bytes);
  if (tokens.empty() || OneIn(20, random)) return MutateBytes(bytes, most);
  const size_t times = 1 + Below(3, random);
  for (size_t i = 0; i < times && !tokens.empty(); ++i) ChangeOne(tokens, random);
  std::string changed;
  for (const std::string& token : tokens) changed += token;
  return changed.size() > most ? bytes : changed;
}

}  // namespace onnxfit::fuzz

#include "cli/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

namespace onnxfit {
namespace {

// As a shell takes it for one word.
std::string Word(const std::string& text) {
  constexpr std::string_view kPlain = "-_./,:=+%@";
  const bool is_plain = !text.empty() && std::ranges::all_of(text, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           kPlain.find(c) != std::string_view::npos;
  });
  if (is_plain) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

std::vector<std::string> WordsOf(const std::string& flags) {
  std::istringstream in(flags);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// Whether the advice says that flag itself, or says to leave it out.  One dimension has nothing to
// do with another.
bool IsReplaced(const TypedFlag& typed, const std::vector<std::string>& words) {
  const std::string_view name = std::string_view(typed.value).substr(0, typed.value.find('='));
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != typed.name && words[i] != typed.letter) continue;
    if (typed.name != "--dim" && typed.name != "--shape") return true;
    if (i + 1 < words.size() && words[i + 1].starts_with(fmt::format("{}=", name))) return true;
  }
  return false;
}

std::string WithoutNegated(const std::string& flags) {
  std::string text;
  const std::vector<std::string> words = WordsOf(flags);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "without") {
      ++i;
    } else {
      text += " " + words[i];
    }
  }
  return text;
}

}  // namespace

std::string RecipeOf(const Options& options, const Advice& advice) {
  const std::vector<std::string> words = WordsOf(advice.flags);
  std::string text = "onnxfit estimate " + Word(options.model);
  for (const TypedFlag& typed : options.typed) {
    if (typed.name == "--note" || IsReplaced(typed, words)) continue;
    text += " " + (typed.letter.empty() ? typed.name : typed.letter);
    if (!typed.value.empty()) text += " " + Word(typed.value);
  }
  const bool has_batch = std::ranges::find(words, "-b") != words.end();
  if (!has_batch) text += fmt::format(" -b {}", *advice.max_batch);
  return text + WithoutNegated(advice.flags);
}

}  // namespace onnxfit

#include "estimator/base/phrase_search.h"

#include <algorithm>
#include <deque>

namespace onnxfit {

size_t SkipEscape(std::string_view text, size_t at) {
  size_t next = at + 1;
  if (next >= text.size() || text[next] != '[') return std::min(next + 1, text.size());
  ++next;
  while (next < text.size() && (IsDigit(text[next]) || text[next] == ';' || text[next] == '?')) {
    ++next;
  }
  return std::min(next + 1, text.size());
}

PhraseSearch::PhraseSearch(std::span<const std::string_view> phrases)
    : next_(kBytes, 0), ends_(1, 0) {
  for (const std::string_view phrase : phrases) Insert(phrase);
  Complete();
}

void PhraseSearch::Insert(std::string_view phrase) {
  State state = 0;
  for (const char c : phrase) {
    const auto byte = static_cast<unsigned char>(c);
    if (Next(state, byte) == 0) {
      Next(state, byte) = static_cast<State>(ends_.size());
      ends_.push_back(0);
      next_.resize(next_.size() + kBytes, 0);
    }
    state = Next(state, byte);
  }
  ends_[state] = 1;
}

// From a tree to an automaton: where a phrase cannot go on, its longest end that begins another
// one does.  Capital letters lead where small ones do, white space nowhere.
void PhraseSearch::Complete() {
  std::vector<State> fallback(ends_.size(), 0);
  std::deque<State> queue;
  for (size_t byte = 0; byte < kBytes; ++byte) {
    if (next_[byte] != 0) queue.push_back(next_[byte]);
  }
  for (; !queue.empty(); queue.pop_front()) {
    const State state = queue.front();
    ends_[state] |= ends_[fallback[state]];
    for (size_t b = 0; b < kBytes; ++b) {
      const auto byte = static_cast<unsigned char>(b);
      const State beyond = Next(fallback[state], byte);
      State& next = Next(state, byte);
      if (next == 0) {
        next = beyond;
      } else {
        fallback[next] = beyond;
        queue.push_back(next);
      }
    }
  }
  for (size_t state = 0; state < ends_.size(); ++state) {
    for (char c = 'A'; c <= 'Z'; ++c) {
      const State lower = Next(static_cast<State>(state), static_cast<unsigned char>(ToLower(c)));
      Next(static_cast<State>(state), static_cast<unsigned char>(c)) = lower;
    }
    for (const char c : {' ', '\t', '\n', '\v', '\f', '\r'}) {
      Next(static_cast<State>(state), static_cast<unsigned char>(c)) = static_cast<State>(state);
    }
  }
}

std::optional<size_t> PhraseSearch::FindEnd(std::string_view text, size_t from) const {
  size_t state = 0;
  for (size_t at = from; at < text.size();) {
    if (text[at] == '\033') {
      at = SkipEscape(text, at);
      continue;
    }
    state = next_[state * kBytes + static_cast<unsigned char>(text[at++])];
    if (ends_[state] != 0) return at;
  }
  return std::nullopt;
}

}  // namespace onnxfit

#include "estimator/oom/log_lines.h"

#include <algorithm>
#include <deque>
#include <optional>

namespace onnxfit {
namespace {

constexpr size_t kLettersBefore = 600;  // ONNX Runtime names the node so far before the size
constexpr size_t kLongestLine = 1024;   // of those before: a progress bar may be a long one
constexpr size_t kBytesAround = 64 * 1024;

// "#" is a number, "*" a word, " " one or more blanks, what is in braces the process.
constexpr std::string_view kPrefixes[] = {
    "[{rank#}]:",         // torch 2.3 and later, on what ranks print of an exception
    "[{default#}]:",      // torchrun --tee
    "[{rank: #}]",        // lightning, and loggers after it
    "[{#}]:",             // torch.distributed.run of 1.9, horovodrun
    "[{#,#}]<stderr>:",   // mpirun --tag-output
    "[{#,#}]<stdout>:",   //
    "({pid=#})",          // Ray
    "({* pid=#})",        //
    "({* pid=#, ip=*})",  //
    "{#}: ",              // srun --label
    "{*} | ",             // docker compose
    "> ",                 // quoted in mail and Markdown
    "#-#-#T#:#:#.#Z ",    // docker --timestamps, GitHub Actions, kubectl
    "#-#-#T#:#:#Z ",      //
    "#-#-# #:#:#,# ",     // Python's logging
    "#-#-# #:#:#.# ",     //
    "#-#-# #:#:# ",       //
    "[#-#-# #:#:#,#]",    // Hydra, transformers
};

bool IsWord(char c) {
  return IsDigit(c) || (ToLower(c) >= 'a' && ToLower(c) <= 'z') || c == '_' || c == '-' || c == '.';
}

size_t SkipBlanks(std::string_view line, size_t at) {
  while (at < line.size() && (IsSpace(line[at]) || line[at] == '\033')) {
    at = line[at] == '\033' ? SkipEscape(line, at) : at + 1;
  }
  return at;
}

template <typename Predicate>
size_t SkipWhile(std::string_view line, size_t at, Predicate is) {
  while (at < line.size() && is(line[at])) ++at;
  return at;
}

struct Prefix {
  size_t end = 0;
  std::string_view process = {};
};

std::optional<Prefix> ReadPrefix(std::string_view line, size_t at, std::string_view pattern) {
  Prefix prefix;
  size_t begin = at;
  for (const char c : pattern) {
    const size_t before = at;
    if (c == '{') begin = at;
    if (c == '}') prefix.process = line.substr(begin, at - begin);
    if (c == '{' || c == '}') continue;
    if (c == '#') at = SkipWhile(line, at, IsDigit);
    if (c == '*') at = SkipWhile(line, at, IsWord);
    if (c == ' ') at = SkipWhile(line, at, [](char blank) { return blank == ' '; });
    const bool is_literal = c != '#' && c != '*' && c != ' ';
    if (is_literal && at < line.size() && line[at] == c) ++at;
    if (at == before) return std::nullopt;
  }
  prefix.end = at;
  return prefix;
}

std::optional<Prefix> ReadAnyPrefix(std::string_view line, size_t at) {
  for (const std::string_view pattern : kPrefixes) {
    const auto prefix = ReadPrefix(line, at, pattern);
    if (prefix) return prefix;
  }
  return std::nullopt;
}

// Where the line around `at` begins and ends, as far as it is read.
size_t LineBegin(std::string_view log, size_t at) {
  const size_t furthest = at - std::min(at, kBytesAround);
  const size_t newline = log.substr(furthest, at - furthest).rfind('\n');
  return newline == std::string_view::npos ? furthest : furthest + newline + 1;
}

size_t LineEnd(std::string_view log, size_t at) {
  const std::string_view ahead = log.substr(at, kBytesAround);
  return at + std::min(ahead.find('\n'), ahead.size());
}

// How many letters of `text` at `at` are a line's end that a program quoted, as "n" behind one or
// two backslashes (Python's repr).  In a path, "C:" and "new", a small letter follows.
size_t QuotedNewline(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && end - at < 2 && text[end] == '\\') ++end;
  if (end == at || end >= text.size() || text[end] != 'n') return 0;
  const bool is_path = end + 1 < text.size() && text[end + 1] >= 'a' && text[end + 1] <= 'z';
  return is_path ? 0 : end + 1 - at;
}

// `gap`: what is before `text`.
void Append(Letters& letters, std::string_view log, std::string_view text, size_t most,
            char gap = '\n') {
  for (size_t i = 0; i < text.size() && letters.lower.size() < most;) {
    if (text[i] == '\033') {
      i = SkipEscape(text, i);
    } else if (IsSpace(text[i])) {
      gap = gap == '\n' ? gap : ' ';
      ++i;
    } else if (const size_t quoted = QuotedNewline(text, i); quoted > 0) {
      gap = '\n';
      i += quoted;
    } else {
      letters.lower += ToLower(text[i]);
      letters.written += text[i];
      letters.at.push_back(static_cast<size_t>(text.data() - log.data()) + i);
      letters.gap.push_back(gap);
      gap = 0;
      ++i;
    }
  }
}

// The lines before the one that begins at `begin`, first ones first.
std::vector<LogLine> LinesBefore(std::string_view log, size_t begin, std::string_view process) {
  std::vector<LogLine> lines;
  const size_t furthest = begin - std::min(begin, kBytesAround);
  for (size_t letters = 0; begin > furthest && letters < kLettersBefore;) {
    const size_t end = begin - 1;
    begin = LineBegin(log, end);
    LogLine line = ReadLogLine(log.substr(begin, end - begin));
    if (line.process != process) continue;
    line.text.remove_prefix(line.text.size() - std::min(line.text.size(), kLongestLine));
    letters += line.text.size() + 1;
    lines.push_back(line);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

}  // namespace

LogLine ReadLogLine(std::string_view line) {
  LogLine read;
  size_t at = SkipBlanks(line, 0);
  while (const auto prefix = ReadAnyPrefix(line, at)) {
    if (read.process.empty()) read.process = prefix->process;
    at = SkipBlanks(line, prefix->end);
  }
  read.text = line.substr(at);
  return read;
}

std::string Letters::Sentence(size_t begin, size_t end, size_t most) const {
  std::string sentence;
  for (size_t i = begin; i < std::min(end, written.size()) && sentence.size() < most; ++i) {
    if (i > begin && gap[i] != 0) sentence += ' ';
    sentence += written[i];
  }
  return sentence;
}

Letters ReadLetters(std::string_view log, size_t place, size_t ahead) {
  Letters letters;
  const size_t begin = LineBegin(log, place);
  size_t end = LineEnd(log, place);
  const LogLine here = ReadLogLine(log.substr(begin, end - begin));
  letters.process = std::string(here.process);
  constexpr size_t kAll = std::string_view::npos;
  for (const LogLine& line : LinesBefore(log, begin, here.process)) {
    Append(letters, log, line.text, kAll);
  }
  const auto from = static_cast<size_t>(here.text.data() - log.data());
  const size_t near = std::max(from, place - std::min(place, kLongestLine));
  if (near < place) Append(letters, log, log.substr(near, place - near), kAll);
  letters.place = letters.lower.size();
  const size_t most = letters.place + ahead;
  const size_t rest = std::max(from, place);
  const bool begins_line = rest == from;
  const char inside = !begins_line && IsSpace(log[rest - 1]) ? ' ' : '\0';
  Append(letters, log, log.substr(rest, end - rest), most, begins_line ? '\n' : inside);

  std::string_view current = here.process;
  const size_t furthest = std::min(log.size(), place + kBytesAround);
  while (end + 1 < furthest && letters.lower.size() < most) {
    const size_t next = end + 1;
    end = LineEnd(log, next);
    const LogLine line = ReadLogLine(log.substr(next, end - next));
    if (!line.process.empty()) current = line.process;
    if (current == here.process) Append(letters, log, line.text, most);
  }
  return letters;
}

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
  State state = 0;
  return FindEnd(text, from, state);
}

std::optional<size_t> PhraseSearch::FindEnd(std::string_view text, size_t from, State& kept) const {
  size_t state = kept;
  for (size_t at = from; at < text.size();) {
    if (text[at] == '\033') {
      at = SkipEscape(text, at);
      continue;
    }
    if (IsSpace(text[at])) {
      ++at;
      continue;
    }
    state = next_[state * kBytes + static_cast<unsigned char>(text[at++])];
    if (ends_[state] == 0) continue;
    kept = static_cast<State>(state);
    return at;
  }
  return std::nullopt;
}

}  // namespace onnxfit

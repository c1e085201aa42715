// Lines of logs, freed from what launchers, terminals and web pages put around them, and phrases
// found in them.  Internal to the room oom/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// A line of a log.
struct LogLine {
  std::string_view process = {};  // "rank0", "1,0", "train pid=17"; "" where nothing says
  std::string_view text = {};     // what the process wrote; colours may be in it
};

// Takes time stamps, quote marks and the prefix of a process off a line.
LogLine ReadLogLine(std::string_view line);

// The text around a place of a log as one process wrote it, without white space and colours: so
// sentences read the same wherever they were broken.
struct Letters {
  std::string lower = {};       // in lower case: what phrases are compared with
  std::string written = {};     // the same letters as they were written
  std::vector<size_t> at = {};  // where in the log each letter is
  std::vector<char> gap = {};   // what was before it: '\n' a line's begin, ' ', or 0
  std::string process = {};     // of the line that holds the place
  size_t place = 0;             // index of the first letter at or after the place

  // "CUDA out of memory. Tried …" again, with one space for each gap; at most `most` letters.
  std::string Sentence(size_t begin, size_t end, size_t most) const;
};

// Reads the lines before `place` that give 600 letters, and those after it that give `ahead`: of
// the same process alone.  A line without prefix goes on with the line of a process before it.
// O(letters read); lines of other processes are passed over, up to 64 KiB of them.
Letters ReadLetters(std::string_view log, size_t place, size_t ahead);

// What follows finds phrases in a text, whatever its line breaks, letter case and colours.

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

  using State = uint16_t;

  // The place behind the phrase that ends first at or after `from`, and begins there or later.
  std::optional<size_t> FindEnd(std::string_view text, size_t from) const;

  // The same for phrases that began before `from`: `state` is what the search there left behind, 0
  // at first.
  std::optional<size_t> FindEnd(std::string_view text, size_t from, State& state) const;

 private:
  static constexpr size_t kBytes = 256;

  void Insert(std::string_view phrase);
  void Complete();
  State& Next(State state, unsigned char byte) { return next_[state * kBytes + byte]; }

  std::vector<State> next_;    // by state and byte
  std::vector<uint8_t> ends_;  // by state: a phrase ends here
};

}  // namespace onnxfit

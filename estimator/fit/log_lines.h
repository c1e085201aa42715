// Lines of logs, freed from what launchers, terminals and web pages put around them.  Internal to
// the room fit/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

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

}  // namespace onnxfit

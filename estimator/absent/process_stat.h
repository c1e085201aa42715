// What Linux says of a process in one line.
#pragma once

#include <sys/types.h>

#include <optional>
#include <sstream>
#include <string>

namespace onnxfit::absent {

struct ProcessStat {
  std::string name = {};
  char state = '?';  // Z: ended, though nobody has waited for it
  pid_t parent = 0;
};

// A line of /proc/PID/stat (proc(5)): "12 (the name) S 3 …", where the name may have blanks and
// brackets.  Nullopt where it is none.
inline std::optional<ProcessStat> ParseProcessStat(const std::string& line) {
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat = {.name = line.substr(open + 1, close - open - 1)};
  std::istringstream rest(line.substr(close + 1));
  return rest >> stat.state >> stat.parent ? std::optional(stat) : std::nullopt;
}

}  // namespace onnxfit::absent

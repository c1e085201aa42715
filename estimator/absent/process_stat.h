// What Linux says of a process in one line.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

namespace onnxfit::absent {

struct ProcessStat {
  std::string name = {};
  char state = '?';  // Z: ended, though nobody has waited for it
  pid_t parent = 0;
  uint64_t ticks = 0;  // of processors that it has used
};

// A line of /proc/PID/stat (proc(5)): "12 (the name) S 3 …", where the name may have blanks and
// brackets.  Nullopt where it is none.
inline std::optional<ProcessStat> ParseProcessStat(const std::string& line) {
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat stat = {.name = line.substr(open + 1, close - open - 1)};
  std::istringstream rest(line.substr(close + 1));
  if (!(rest >> stat.state >> stat.parent)) return std::nullopt;
  std::string skipped;
  for (int field = 5; field < 14; ++field) rest >> skipped;
  uint64_t of_user = 0;
  uint64_t of_system = 0;
  if (rest >> of_user >> of_system) stat.ticks = of_user + of_system;
  return stat;
}

}  // namespace onnxfit::absent

// From a log to its out-of-memory messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/oom/beside.h"
#include "estimator/oom/message.h"

namespace onnxfit {

// What one process of a log said.  Ranks are told apart by the prefixes of their lines; without
// any, by the number of the card.
struct ProcessOom {
  OomMessage message;          // the first that says most; figures beside it are in it
  int64_t more = 0;            // other messages of this process
  MachineBeside machine = {};  // what tables of nvidia-smi, free and others show
};

struct OomLog {
  std::vector<ProcessOom> processes = {};  // in order of their messages
  int64_t lines = 0;
  bool is_whole = true;  // false: thousands of places looked like a message, the rest was not read
};

// One pass over `log`, about 2 ns a byte, and some µs for each of the first messages of a process.
OomLog ReadOomLog(std::string_view log);

// What was looked for, for those who have a log without it: "140 programs, from PyTorch …".
std::string OomFrameworks();

// UTF-8 of a text that Windows' PowerShell wrote as UTF-16 (with a byte order mark); other texts
// are left alone: "".
std::string FromUtf16(std::string_view bytes);

}  // namespace onnxfit

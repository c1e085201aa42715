// The processes that a program has started, as Linux tells of them.  Elsewhere there are none.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace onnxfit {

struct RunningProcess {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name = {};
};

// All of the machine that have not ended.  Some 20 microseconds each.
std::vector<RunningProcess> RunningProcesses();

// Of those, what `ancestor` started, and what that did, without itself.
std::vector<pid_t> DescendantsOf(pid_t ancestor, const std::vector<RunningProcess>& processes);

}  // namespace onnxfit

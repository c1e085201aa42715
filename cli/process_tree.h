// The processes that a program has started, as Linux tells of them.  Elsewhere there are none.
#pragma once

#include <sys/types.h>

#include <map>
#include <vector>

#include "estimator/absent/process_stat.h"

namespace onnxfit {

using RunningProcesses = std::map<pid_t, absent::ProcessStat>;

// All of the machine, but for those that have ended and are not waited for yet.  Some 20
// microseconds each.
RunningProcesses AllProcesses();

// Of those, what `ancestor` started, and what that did, without itself.
std::vector<pid_t> DescendantsOf(pid_t ancestor, const RunningProcesses& processes);

}  // namespace onnxfit

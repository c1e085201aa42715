// What a program leaves running behind it, which must not outlive the run.
#pragma once

#include <string>
#include <vector>

namespace onnxfit {

// While it lives, a process whose parent has ended becomes ours instead of init's (prctl(2),
// PR_SET_CHILD_SUBREAPER), however far down it was started.
class LeftProcesses {
 public:
  LeftProcesses();
  ~LeftProcesses();
  LeftProcesses(const LeftProcesses&) = delete;
  LeftProcesses& operator=(const LeftProcesses&) = delete;

  // Gives those that are left a moment to end by themselves, then asks them to (SIGTERM), then ends
  // them (SIGKILL).  Returns the names of those that had to be asked: "sleep".
  // REQUIRES: nobody else here waits for a child.
  std::vector<std::string> EndAll();
};

}  // namespace onnxfit

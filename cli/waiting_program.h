// A program that serves ends only when somebody ends it.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "cli/process.h"

namespace onnxfit {

// What processes do, as Linux says it.
struct ProcessesNow {
  uint64_t ticks = 0;    // of processors that they have used, all together (sysconf(_SC_CLK_TCK))
  bool is_busy = false;  // some thread runs, or would if it had a processor or a disk
  int port = 0;          // the lowest one that listens and to which nobody is connected, 0 for none
};

// Of all that `program` has started, itself included.
ProcessesNow LookAt(pid_t program);

// While it lives, looks each second whether the program waits for requests: in so many looks in a
// row no thread of it was busy, between them it used less than a tenth of a processor, and one of
// its processes listens on a TCP port to which nobody is connected.  (torch.distributed's store
// listens, too, and has its own ranks connected.)  Then it is asked to end (SIGTERM), and ended
// where it does not.
class WaitingProgram {
 public:
  WaitingProgram(pid_t program, const ProgramPatience& patience);
  ~WaitingProgram();
  WaitingProgram(const WaitingProgram&) = delete;
  WaitingProgram& operator=(const WaitingProgram&) = delete;

  // The port that it waited at when it was asked to end, 0 where it was not.  Once it has ended.
  int Stop();

 private:
  void Watch(pid_t program, int64_t seconds);
  void End(pid_t program, int port);
  bool Rest(int64_t seconds);  // false where it is to stop

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stops_ = false;
  int port_ = 0;
  std::string file_;
  std::thread thread_;
};

}  // namespace onnxfit

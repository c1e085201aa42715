// How much of the machine's RAM a program takes while it runs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "estimator/report/program_run.h"

namespace onnxfit {

// From its making on, all processes that this one started are looked at: every 20 ms, less often
// where there are many, so that it takes some 4 % of a processor at most.  What lies in RAM of
// their own and of what they share (a page of several counts once); files that are mapped do not
// count, since the kernel takes their pages back.  A peak between two looks is not seen.  Linux.
class HostWatch {
 public:
  HostWatch();
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

  // The most until now.
  HostPeak Peak() const;

 private:
  void Watch();
  void Look();

  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  bool is_over_ = false;
  HostPeak peak_;
  std::thread thread_;
};

}  // namespace onnxfit

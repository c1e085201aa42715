// The folder of a run of somebody's program: what it is started with, and what it writes.
#pragma once

#include <string>
#include <vector>

#include "estimator/fit/target.h"

namespace onnxfit {

// Gone with the object, unless it was kept.
class ProgramFolder {
 public:
  // A temporary folder for a program that sees `cards`, in this order.  Those of runs that were
  // killed go first.  Throws Error where it cannot be made, or where this command carries no
  // library for this machine.
  explicit ProgramFolder(const std::vector<Target>& cards);
  ~ProgramFolder();
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  const std::string& path() const { return path_; }

  // "NAME=VALUE" for the program's environment: what finds the library and the hooks before others.
  std::vector<std::string> variables() const;

 private:
  std::string path_;
  int lock_ = -1;  // held as long as the run goes on
};

}  // namespace onnxfit

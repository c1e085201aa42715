// One run of somebody's program on cards that are not there, and what is made of it.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "estimator/fit/target.h"
#include "estimator/report/program_run.h"

namespace onnxfit {

struct ProgramTrial {
  std::vector<std::string> command = {};
  std::vector<Target> cards = {};  // that it sees at once, in this order
  int64_t most_steps = 0;          // 0: as it wants
  int64_t most_seconds = 0;
  int64_t ram_bytes = 0;      // that the machine has, 0 where nobody asks
  int64_t idle_seconds = 0;   // of waiting for requests, behind which it ends; 0: it does not
  bool until_same = false;    // it ends when three turns of its loop allocate the same
  bool is_silent = false;     // what it prints is kept back, and shown where it fails
  bool to_stderr = false;     // standard output is ours
  std::string snapshot = {};  // where PyTorch's snapshot of it goes, "" for nowhere
  std::optional<TextOptions> timeline = {};  // how it is drawn, if it is
  size_t curve_points = 0;                   // of its processes' curves, 0 for none
};

// Runs it to its end.  Throws Error where it cannot be started, or never used CUDA.
ProgramRun RunTrial(const ProgramTrial& trial, std::ostream& err);

}  // namespace onnxfit

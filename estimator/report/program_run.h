// A program that was run on cards that are not there: what it took, and whether it fits them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/warnings.h"
#include "estimator/fit/verdict.h"
#include "estimator/report/formats.h"

namespace onnxfit {

// What PyTorch says of one card in one process, at the most of the run.
struct TorchPeaks {
  int64_t device = 0;  // the process's number of it
  int64_t requested_bytes = 0;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  int64_t retries = 0;  // cached memory went back to the card first
  int64_t ooms = 0;
};

// A value that the program read though nobody knows it.
struct UnknownRead {
  std::string place = {};   // "train.py:41"
  std::string source = {};  // the line
  int64_t count = 0;
};

struct ProgramProcess {
  int64_t pid = 0;
  std::string rank = {};   // of torchrun, "" without
  std::string torch = {};  // its version
  int64_t steps = 0;       // of optimizers
  std::vector<TorchPeaks> peaks = {};
  std::vector<UnknownRead> unknown = {};
  std::vector<std::string> saved = {};  // files that were not written over
  std::string oom_message = {};         // of the exception that ended it, in its own words
};

struct ProgramRun {
  std::vector<std::string> command = {};
  int exit_code = 0;
  std::vector<JudgedTarget> cards = {};
  std::vector<ProgramProcess> processes = {};  // those that used PyTorch on a card
  std::vector<std::string> unknown_functions = {};
  std::vector<std::string> unknown_sizes = {};  // whose scratch was taken as none
};

// One process's file, which PyTorch's side wrote (hook/record.py).  Throws Error where it is none.
ProgramProcess ReadProgramProcess(std::string_view json);

// At most 80 columns wide, every line with its newline.  With options.quiet the verdicts alone.
std::string ToText(const ProgramRun& run, const TextOptions& options = {});

// Schema 1, one object.
std::string ToJson(const ProgramRun& run, const JsonOptions& options);

}  // namespace onnxfit

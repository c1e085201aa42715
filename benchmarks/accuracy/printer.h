// The main function of programs that print what is predicted, for the scripts here.
#pragma once

#include <iostream>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/run.h"
#include "cli/targets.h"

namespace onnxfit {

// Runs `print` with the flags of `onnxfit estimate`; the exit code.
inline int RunPrinter(int argc, char** argv, int (*print)(const Options& options)) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  const auto run = [&] {
    Options options = ParseOptions(args);
    SetTargets(options, [] { return GpuSearch(); });  // --gpu auto finds none
    AskCudnn(options);
    return print(options);
  };
  return CatchErrors(run, "", std::cerr);
}

}  // namespace onnxfit

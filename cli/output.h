// Where an answer goes: standard output, or the file that --output names.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/options.h"

namespace onnxfit {

// Says before the work is done what would keep its answer from being written.  `input` is what
// the answer is about ("the model"), at `input_path`.  Throws Error.
void CheckOutput(const Options& options, const std::string& input_path, const char* input);

// `options.text`, with colours where they are wanted, and in ASCII where standard output shows no
// other letters.
TextOptions WithColor(const Options& options, const std::ostream& out);

// Throws Error where `report` cannot be written.
void WriteReport(const std::string& report, const Options& options, std::ostream& out);

}  // namespace onnxfit

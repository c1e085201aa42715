// The whole program as a function, so that tests run it in process.
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>

namespace onnxfit {

// Runs `args` (without the program's name) and returns the exit code.  The answer goes to
// `out`; an error is one line on `err`, and `out` then stays empty.
int Run(std::span<const std::string> args, std::ostream& out, std::ostream& err);

// Runs `command` and turns what it throws into a line on `err`.  The one place that
// catches.  `model` is named by errors that do not say which file they are about; it is
// read after `command` threw, "" names nothing.
int CatchErrors(const std::function<int()>& command, const std::string& model, std::ostream& err);

}  // namespace onnxfit

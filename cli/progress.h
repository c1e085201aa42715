// One line on a terminal that says how far long work has come, and goes when it is done.
#pragma once

#include <iosfwd>
#include <string>

namespace onnxfit {

class Progress {
 public:
  // Silent where `err` is not this process's standard error on a terminal.
  explicit Progress(std::ostream& err);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // REQUIRES: `text` has at most 79 columns.
  void Show(const std::string& text);

 private:
  std::ostream& err_;
  const bool is_shown_;
};

}  // namespace onnxfit

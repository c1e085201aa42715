#include "cli/progress.h"

#include <unistd.h>

#include <iostream>

namespace onnxfit {
namespace {

constexpr char kClear[] = "\r\033[K";

}  // namespace

Progress::Progress(std::ostream& err)
    : err_(err), is_shown_(&err == &std::cerr && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (is_shown_) err_ << kClear << std::flush;
}

void Progress::Show(const std::string& text) {
  if (is_shown_) err_ << kClear << text << std::flush;
}

}  // namespace onnxfit

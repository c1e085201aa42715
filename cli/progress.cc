#include "cli/progress.h"

#include <unistd.h>

#include <csignal>
#include <iostream>

namespace onnxfit {
namespace {

constexpr char kClear[] = "\r\033[K";
constexpr size_t kColumns = 79;

}  // namespace

Progress::Progress(std::ostream& err, std::chrono::milliseconds after)
    : err_(err), is_shown_(&err == &std::cerr && isatty(STDERR_FILENO) == 1) {
  has_begun_ = after.count() == 0;
  if (is_shown_ && !has_begun_) timer_ = std::thread([this, after] { ShowLater(after); });
}

Progress::~Progress() { End(); }

void Progress::End() {
  {
    const std::lock_guard lock(mutex_);
    if (is_done_) return;
    is_done_ = true;
  }
  ends_.notify_all();
  if (timer_.joinable()) timer_.join();
  if (is_shown_ && has_begun_) err_ << kClear << std::flush;
}

void Progress::ShowLater(std::chrono::milliseconds after) {
  std::unique_lock lock(mutex_);
  if (ends_.wait_for(lock, after, [this] { return is_done_; })) return;
  has_begun_ = true;
  Write();
}

void Progress::Show(const std::string& text) {
  const std::lock_guard lock(mutex_);
  text_ = text.substr(0, kColumns);
  if (has_begun_ && !is_done_) Write();
}

void Progress::Write() {
  if (is_shown_) err_ << kClear << text_ << std::flush;
}

// What follows is Ctrl-C.
namespace {

volatile std::sig_atomic_t is_asked = 0;

void Ask(int signal) {
  is_asked = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  is_asked = 0;
  before_int_ = std::signal(SIGINT, Ask);
  before_term_ = std::signal(SIGTERM, Ask);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, before_int_);
  std::signal(SIGTERM, before_term_);
}

bool Interrupt::IsAsked() { return is_asked != 0; }

}  // namespace onnxfit

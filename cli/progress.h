// Long work: how far it has come, and whether somebody wants it to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <iosfwd>
#include <mutex>
#include <string>
#include <thread>

namespace onnxfit {

// One line on a terminal that says how far long work has come, and goes when it is done.
class Progress {
 public:
  // Silent where `err` is not this process's standard error on a terminal, and until work has
  // taken `after`.
  explicit Progress(std::ostream& err, std::chrono::milliseconds after = {});
  ~Progress();  // ends it
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cuts `text` to a line.  May be called from several threads.
  void Show(const std::string& text);

  // Clears the line, and shows no other: before an answer is written.
  void End();

 private:
  void ShowLater(std::chrono::milliseconds after);
  void Write();  // REQUIRES: mutex_ is held

  std::ostream& err_;
  const bool is_shown_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable ends_;
  std::string text_;
  bool has_begun_ = false;
  bool is_done_ = false;
  std::thread timer_;
};

// Ctrl-C, as a question that long work asks.  While one lives, SIGINT and SIGTERM only set a mark;
// a second one ends the process as ever. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();  // as it was before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  static bool IsAsked();

 private:
  void (*before_int_)(int) = nullptr;
  void (*before_term_)(int) = nullptr;
};

}  // namespace onnxfit

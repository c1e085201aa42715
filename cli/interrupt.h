// Ctrl-C, as a question that long work asks.
#pragma once

namespace onnxfit {

// While one lives, SIGINT and SIGTERM only set a mark; a second one ends the process as ever.
// One at a time.
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

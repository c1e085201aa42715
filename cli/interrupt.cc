#include "cli/interrupt.h"

#include <csignal>

namespace onnxfit {
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

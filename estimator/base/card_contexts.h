// What CUDA takes on each card for a process.  Answers take it from cards.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "estimator/base/device.h"

namespace onnxfit {

// A context that was seen: process figures minus PyTorch's own figures in published
// out-of-memory messages.
struct SeenContext {
  std::string_view alias;  // of the card
  int64_t mib;             // the middle one of those in training runs
  int64_t low_mib;         // a process without kernels, where one was seen
  int64_t high_mib;
  std::string_view evidence;  // the reports
};

std::span<const SeenContext> SeenContexts();

// Null where none was seen on the card of that alias.
const SeenContext* FindSeenContext(std::string_view alias);

// What was seen on the card of that alias (measured), else the rule (assumed).
ContextBytes ContextOf(std::string_view alias, int64_t multiprocessors);

// Of boards whose memory is the CPU's, too: libraries and kernels lie there beside the context.
ContextBytes SharedRuntime();

// The rule: a fixed part and one for each multiprocessor, whose stacks and buffers CUDA allots
// when a context begins.  Its range holds all that was seen.
ContextBytes ContextByRule(int64_t multiprocessors);

}  // namespace onnxfit

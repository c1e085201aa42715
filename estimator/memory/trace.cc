#include "estimator/memory/trace.h"

#include <fmt/format.h>

#include "estimator/base/index.h"

namespace onnxfit {
namespace {

constexpr std::string_view kKindNames[kKinds] = {
    "parameters", "buffers",     "gradients",   "optimizer_state",
    "inputs",     "activations", "temporaries", "workspaces",
};

constexpr std::string_view kPhaseNames[] = {"setup", "forward", "backward", "optimizer",
                                            "evaluation"};

// One event as a word, "" for those that are not about memory.
std::string Word(const Trace& trace, const Event& event) {
  if (event.type != Event::Type::kAlloc && event.type != Event::Type::kFree) return "";
  const Buffer& buffer = trace.buffers[Index(event.id)];
  const std::string& label = trace.labels[Index(buffer.label)];
  if (event.type == Event::Type::kFree) return " -" + label;
  return fmt::format(" +{}:{}", label, buffer.bytes);
}

}  // namespace

std::string_view ToString(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }
std::string_view ToString(Phase phase) { return kPhaseNames[static_cast<size_t>(phase)]; }

std::string LabelText(const Trace& trace, int32_t label) {
  return label < 0 ? std::string() : trace.labels[Index(label)];
}

std::string ToString(const Trace& trace) {
  std::string text = "\n";
  std::string line;
  const auto finish_line = [&] {
    if (!line.empty()) text += line + "\n";
  };
  for (const Event& event : trace.events) {
    if (event.type == Event::Type::kPhase) {
      finish_line();
      line = fmt::format("{:<9}", ToString(event.phase));
    }
    line += Word(trace, event);
  }
  finish_line();
  return text;
}

}  // namespace onnxfit

// What tests ask of programs whose layers ranks share.
#pragma once

#include <string>
#include <string_view>

#include "estimator/base/error.h"
#include "estimator/program/program.h"
#include "tests/trace_helpers.h"

namespace onnxfit {

// The calls of the module `path`, in order.
inline std::string OpsOf(const Program& program, std::string_view path) {
  std::string ops;
  for (const AtenCall& call : program.calls) {
    if (program.modules.PathOf(call.module) == path) ops += std::string(call.op) + " ";
  }
  return ops;
}

// `text` with every `from` replaced.
inline std::string AllReplaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// The error of training what the ONNX text says; "" where there is none.
inline std::string RefusalOf(std::string_view text, const TrainingSettings& settings) {
  try {
    const Trace trace = Train(Build(text, settings).program, settings);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace onnxfit

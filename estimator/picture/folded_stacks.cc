#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "estimator/picture/run_files.h"
#include "estimator/report/layout.h"

namespace onnxfit {
namespace {

// "model;layer1;0;conv1" of "layer1.0.conv1".  Semicolons and spaces at ends would end a name.
std::string StackOf(std::string_view path) {
  std::string stack = "model";
  if (path.empty()) return stack;
  stack += ';';
  for (const char c : Clean(path, false)) stack += c == '.' ? ';' : c == ';' || c == ' ' ? '_' : c;
  return stack;
}

}  // namespace

std::string ToFoldedStacks(const Estimate& estimate) {
  std::string text;
  for (size_t i = 0; i < estimate.modules.size(); ++i) {
    const ModuleSum own = OwnOf(estimate.modules, i);
    const std::pair<const char*, int64_t> parts[] = {{"weights", own.weight_bytes},
                                                     {"gradients and states", own.training_bytes},
                                                     {"activations", own.activation_bytes},
                                                     {"inputs and workspaces", own.other_bytes}};
    for (const auto& [what, bytes] : parts) {
      if (bytes > 0) text += fmt::format("{};{} {}\n", StackOf(own.path), what, bytes);
    }
  }
  return text;
}

}  // namespace onnxfit

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

// What a module has beside those directly in it.
ModuleSum OwnOf(const std::vector<ModuleSum>& modules, size_t place) {
  ModuleSum own = modules[place];
  for (size_t i = place + 1; i < modules.size() && modules[i].depth > own.depth; ++i) {
    if (modules[i].depth != own.depth + 1) continue;
    own.weight_bytes -= modules[i].weight_bytes;
    own.training_bytes -= modules[i].training_bytes;
    own.activation_bytes -= modules[i].activation_bytes;
    own.other_bytes -= modules[i].other_bytes;
  }
  return own;
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

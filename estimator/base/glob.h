// Names picked by patterns, as flags take them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnxfit {

// "*" is any letters, dots and slashes included, "?" is one.  O(letters of both multiplied).
bool MatchesGlob(std::string_view name, std::string_view glob);

// What patterns are matched against: `what` names them in messages ("parameters").
struct GlobScope {
  std::string_view flag;  // "--freeze"
  std::string_view what;
  std::string_view file;
};

// By index into `names`: whether one of `globs` matches.  A leading "model.", which is what
// exporters call a wrapped network, may be left out: "layer1.*" is "model.layer1.*" too.
// Throws Error for a glob that matches nothing, with the nearest names.
std::vector<bool> PickNames(std::span<const std::string> names, std::span<const std::string> globs,
                            const GlobScope& scope);

}  // namespace onnxfit

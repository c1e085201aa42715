// What the model's own source says, where torch.export has written it down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/onnx/graph.h"

namespace onnxfit {

// Under this key are a node's frames, two lines each.
inline constexpr std::string_view kSourceKey = "pkg.torch.onnx.stack_trace";

// A line of the model's source on the way to a node.
struct SourceFrame {
  int64_t line = 0;  // 0: unknown
  std::string text;
};

// The frames of the node's call that the file shows, the innermost last.
std::vector<SourceFrame> SourceFrames(const Node& node);

// The line that the call was made in; "" if unknown.  Points into `frames`.
std::string_view InnermostLine(const std::vector<SourceFrame>& frames);

// Whether a line writes over an operand: "out += x", "x.relu_()"; not "F.relu(x)".  An empty
// one says nothing, nor does a module's "F.relu(input, inplace=self.inplace)".
std::optional<bool> WrittenInPlace(std::string_view line);

}  // namespace onnxfit

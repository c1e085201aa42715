// What the model's own source says, where torch.export has written it down.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// The frames of the node's call that the file shows, the innermost last, two at most.
std::vector<SourceFrame> SourceFrames(const Node& node);

// "out" of "y = self.bn1(out)" for module "layer1.0.bn1", and of "input = module(input)" for
// a child of a Sequential: the name that a line passes to the module, or "".
std::string ArgumentTo(std::string_view module, std::string_view line);

// The source line that the node's call was made in: the innermost frame's; "" if unknown.
std::string SourceLine(const Node& node);

// Whether that line writes over an operand ("out += x", "out.add_(x)"), where the file
// says so; a line that is unknown says nothing.
std::optional<bool> WrittenInPlace(const Node& node);

}  // namespace onnxfit

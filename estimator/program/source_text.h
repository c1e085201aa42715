// What the model's own source says, where torch.export has written it down.
#pragma once

#include <optional>
#include <string_view>

#include "estimator/graph/graph.h"

namespace onnxfit {

// The source line that the node's call was made in: the innermost frame's; "" if unknown.
std::string_view SourceLine(const Node& node);

// Whether that line writes over an operand ("out += x", "out.add_(x)"), where the file
// says so; a line that is unknown says nothing.
std::optional<bool> WrittenInPlace(const Node& node);

}  // namespace onnxfit

// JSON that people compare line by line.  Internal to the room report/.
#pragma once

#include <string>

#include "estimator/report/json_parts.h"

namespace onnxfit {

// `json` over several lines, two spaces deeper at each level: what holds nothing but plain values
// and lists of them stands on one, so that a change of one thing is one line of a diff.
std::string InLines(const Json& json);

}  // namespace onnxfit

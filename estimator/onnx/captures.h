// What the bodies of If, Loop and Scan read from the graph around them.
// Internal to the room onnx/.
#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>
#include <vector>

namespace onnxfit {

// The names that sub-graphs of `node` use and do not define, each once, in the order of
// use; empty for a node without sub-graphs.  O(what the sub-graphs hold × nesting).
std::vector<std::string_view> CapturedNames(const onnx::NodeProto& node);

}  // namespace onnxfit

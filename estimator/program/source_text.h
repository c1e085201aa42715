// What the model's own source says, where torch.export has written it down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/program/program.h"

namespace onnxfit {

// Under this key are a node's frames, two lines each.
inline constexpr std::string_view kSourceKey = "pkg.torch.onnx.stack_trace";

// The frames of the node's call that the file shows, the innermost last.
std::vector<SourceFrame> SourceFrames(const Node& node);

// "out" of "y = self.bn1(out)" for module "layer1.0.bn1", and of "input = module(input)" for
// a child of a Sequential, "x" of "x = r(cat([u(x), s.pop()]))" for one of a list: the name
// that a line passes to the module, or "".
std::string ArgumentTo(std::string_view module, std::string_view line);

// "a" and "b" of "x = a + b", "return norm(a * b)"; both "" where a line has no such operation
// of two plain names, or more than one.
std::pair<std::string, std::string> OperandsOf(std::string_view line);

// "x" of "y = x.view(shape)", of a call on a plain name that is no module of Python's; else "".
std::string ReceiverOf(std::string_view line);

// "features" of "y = self.features(x)" and of "return self.features(x)", else "".
std::string_view OutermostOwnCall(std::string_view line);

// How many calls in a line may be those of modules: "r(…)", "self.conv(…)"; not "F.relu(…)".
int64_t CountModuleCalls(std::string_view line);

// The names that a line assigns to: "a", "b" of "a, b = f(x)"; "x" of "x += y" and of
// "for f in self.blocks: x = f(x)"; of several statements on one line, those of the last.
std::vector<std::string> TargetsOf(std::string_view line);

// Whether a line is not the model's, but of a graph that torch.export made of a part of it: the
// body of a `with torch.autocast(…)`.
bool IsGenerated(std::string_view line);

// The line that the call was made in; "" if unknown.  Points into `frames`.
std::string_view InnermostLine(const std::vector<SourceFrame>& frames);

// Whether a line writes over an operand: "out += x", "x.relu_()"; not "F.relu(x)".  An empty
// one says nothing, nor does a module's "F.relu(input, inplace=self.inplace)".
std::optional<bool> WrittenInPlace(std::string_view line);

}  // namespace onnxfit

// Modules that are called by their forward, past what PyTorch's hooks see.
#pragma once

#include <string_view>

namespace onnxfit {

// "y = layer.forward(x)" in the forward of module `path`, but not that of a base class: exporters
// have no frame of the module that it calls.  The path of that, "m.layers.0", which is around the
// next module of which they have one, `next`, "m.layers.0.attn"; "" where `line` has no such call,
// or nothing is between both.
std::string_view ModuleCalledByForward(std::string_view path, std::string_view next,
                                       std::string_view line);

}  // namespace onnxfit

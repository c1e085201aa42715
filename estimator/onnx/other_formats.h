// Files that people give instead of an ONNX model.
#pragma once

#include <string_view>

namespace onnxfit {

// Throws Error (without a file) where `first`, the first bytes of a file, belong to
// something that is well known and no ONNX model: it says what, and what to do.
void RefuseOtherFormats(std::string_view first);

}  // namespace onnxfit

// Whether bytes are text.
#pragma once

#include <string_view>

namespace onnxfit {

// True where `text` is well-formed UTF-8, as protobuf's strings must be and JSON's are.
// O(bytes), eight at a time where they are ASCII.
bool IsUtf8(std::string_view text);

}  // namespace onnxfit

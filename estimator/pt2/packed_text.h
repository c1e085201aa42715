// Long texts as ONNX's metadata holds them, which has to be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit::pt2 {

// The text that was deflated by zlib (RFC 1950) and written in base64 (RFC 4648, padded).  Throws
// Error at `where` for what is neither, and where the text has more than 256 MiB.
std::string UnpackText(std::string_view packed, const std::string& where);

}  // namespace onnxfit::pt2

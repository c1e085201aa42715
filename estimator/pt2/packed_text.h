// Long texts in files that hold short ones: deflated by zlib, in base64.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit::pt2 {

// The text of `packed`, 256 MiB at most.  Throws Error for what is damaged, which names `where`.
std::string UnpackText(std::string_view packed, const std::string& where);

}  // namespace onnxfit::pt2

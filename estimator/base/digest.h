// A short name for a long text.
#pragma once

#include <string>
#include <string_view>

namespace onnxfit {

// 64-bit FNV-1a of `text` as 16 hexadecimal digits, the same on every machine.  It tells changes
// apart and gives no security: who wants two texts of one digest finds them.
std::string Digest(std::string_view text);

}  // namespace onnxfit

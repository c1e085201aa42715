// Texts and tables that zlib made smaller.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace onnxfit {

// What `packed`, a stream of zlib's, stands for; nullopt where it is damaged or stands for more
// than `most` bytes.
std::optional<std::string> Inflate(std::string_view packed, size_t most);

}  // namespace onnxfit
